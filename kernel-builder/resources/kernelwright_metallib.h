// The shaders of an extension, for its Objective-C++ sources.
//
// Owns: the bytes of the Metal library that is linked in, and how a library is made of them.
// Never: knows which shaders they are; a source that includes this is not compiled again when a shader changes.
//
// The names are those that kernels for the Hugging Face `kernels` library use: they include EMBEDDED_METALLIB_HEADER and
// call EMBEDDED_METALLIB_NAMESPACE::createLibrary.
#pragma once

#include <cstddef>

extern "C" {
__attribute__((visibility("hidden"))) extern const unsigned char kernelwright_metallib_begin[];
__attribute__((visibility("hidden"))) extern const unsigned char kernelwright_metallib_end[];
}

namespace kernelwright_metallib {

static const unsigned char* const metallib_data = kernelwright_metallib_begin;
static const size_t metallib_data_len =
    static_cast<size_t>(kernelwright_metallib_end - kernelwright_metallib_begin);

} // namespace kernelwright_metallib

#if defined(__OBJC__)

#import <Foundation/Foundation.h>
#import <Metal/Metal.h>
#include <dispatch/dispatch.h>

namespace kernelwright_metallib {

// A Metal library of the extension's shaders; nil, and a reason in `error`, where the device refuses them.
inline id<MTLLibrary> createLibrary(id<MTLDevice> device, NSError** error = nullptr) {
    NSError* reason = nil;
    // The bytes stay where they are as long as the extension is loaded, so nobody has to free them.
    dispatch_data_t bytes = dispatch_data_create(metallib_data, metallib_data_len, nullptr, ^{});
    id<MTLLibrary> library = [device newLibraryWithData:bytes error:&reason];
#if !__has_feature(objc_arc)
    dispatch_release(bytes);
#endif
    if (error != nullptr) {
        *error = reason;
    }
    return library;
}

} // namespace kernelwright_metallib

#endif

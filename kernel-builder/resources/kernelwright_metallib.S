// The shaders of an extension as bytes of its library.
//
// Owns: where they begin and end. Never: is compiled without KERNELWRIGHT_METALLIB, the path of the Metal library.

    .section __TEXT,__const
    .private_extern _kernelwright_metallib_begin
    .private_extern _kernelwright_metallib_end
    .p2align 4
_kernelwright_metallib_begin:
    .incbin KERNELWRIGHT_METALLIB
_kernelwright_metallib_end:
    .byte 0

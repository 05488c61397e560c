// Headers of glibc 2.38 and newer turn strtol and sscanf into names that also read C23's `0b101`. An older library has
// only the C99 ones, which read all else the same. No header is included: it would rename the functions called here.
#define KERNELWRIGHT_HIDDEN extern "C" __attribute__((visibility("hidden")))

// RESULT FUNCTION(const LETTER*, LETTER**, int), and the same with a locale.
#define KERNELWRIGHT_INTEGER(RESULT, LETTER, FUNCTION)                                                                 \
    extern "C" RESULT FUNCTION(const LETTER* text, LETTER** end, int base);                                            \
    KERNELWRIGHT_HIDDEN RESULT __isoc23_##FUNCTION(const LETTER* text, LETTER** end, int base) {                       \
        return FUNCTION(text, end, base);                                                                              \
    }                                                                                                                  \
    extern "C" RESULT FUNCTION##_l(const LETTER* text, LETTER** end, int base, void* locale);                          \
    KERNELWRIGHT_HIDDEN RESULT __isoc23_##FUNCTION##_l(const LETTER* text, LETTER** end, int base, void* locale) {     \
        return FUNCTION##_l(text, end, base, locale);                                                                  \
    }

KERNELWRIGHT_INTEGER(long, char, strtol)
KERNELWRIGHT_INTEGER(long long, char, strtoll)
KERNELWRIGHT_INTEGER(unsigned long, char, strtoul)
KERNELWRIGHT_INTEGER(unsigned long long, char, strtoull)
KERNELWRIGHT_INTEGER(long, wchar_t, wcstol)
KERNELWRIGHT_INTEGER(long long, wchar_t, wcstoll)
KERNELWRIGHT_INTEGER(unsigned long, wchar_t, wcstoul)
KERNELWRIGHT_INTEGER(unsigned long long, wchar_t, wcstoull)

// intmax_t is long where long has 64 bits.
KERNELWRIGHT_HIDDEN long __isoc23_strtoimax(const char* text, char** end, int base) { return strtol(text, end, base); }
KERNELWRIGHT_HIDDEN unsigned long __isoc23_strtoumax(const char* text, char** end, int base) {
    return strtoul(text, end, base);
}

extern "C" int __isoc99_vscanf(const char* format, __builtin_va_list arguments);
extern "C" int __isoc99_vfscanf(void* file, const char* format, __builtin_va_list arguments);
extern "C" int __isoc99_vsscanf(const char* text, const char* format, __builtin_va_list arguments);

KERNELWRIGHT_HIDDEN int __isoc23_vscanf(const char* format, __builtin_va_list arguments) {
    return __isoc99_vscanf(format, arguments);
}
KERNELWRIGHT_HIDDEN int __isoc23_vfscanf(void* file, const char* format, __builtin_va_list arguments) {
    return __isoc99_vfscanf(file, format, arguments);
}
KERNELWRIGHT_HIDDEN int __isoc23_vsscanf(const char* text, const char* format, __builtin_va_list arguments) {
    return __isoc99_vsscanf(text, format, arguments);
}
KERNELWRIGHT_HIDDEN int __isoc23_scanf(const char* format, ...) {
    __builtin_va_list arguments;
    __builtin_va_start(arguments, format);
    const int fields = __isoc99_vscanf(format, arguments);
    __builtin_va_end(arguments);
    return fields;
}
KERNELWRIGHT_HIDDEN int __isoc23_fscanf(void* file, const char* format, ...) {
    __builtin_va_list arguments;
    __builtin_va_start(arguments, format);
    const int fields = __isoc99_vfscanf(file, format, arguments);
    __builtin_va_end(arguments);
    return fields;
}
KERNELWRIGHT_HIDDEN int __isoc23_sscanf(const char* text, const char* format, ...) {
    __builtin_va_list arguments;
    __builtin_va_start(arguments, format);
    const int fields = __isoc99_vsscanf(text, format, arguments);
    __builtin_va_end(arguments);
    return fields;
}

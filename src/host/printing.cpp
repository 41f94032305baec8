// Output that the C library does not pass through this library's functions: formatted output to
// descriptors, and wide characters, which streams of fopencookie refuse.
#include <stdarg.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <memory>
#include <string>
#include <string_view>

#include "host/gate.hpp"
#include "host/next.hpp"
#include "host/places.hpp"
#include "host/streams.hpp"

namespace cldist::host {
namespace {

struct Free {
    void operator()(void *memory) const { std::free(memory); }
};

int print_to(const void *caller, int descriptor, const char *format, va_list arguments) {
    CLDIST_NEXT(vdprintf);
    const bool redirected = descriptor == STDERR_FILENO && goes_to_own_output(caller);
    if (!redirected && kind_of(descriptor) == Kind::none)
        return next(descriptor, format, arguments);
    char *memory = nullptr;
    const int size = vasprintf(&memory, format, arguments);
    if (size < 0) return -1;
    const std::unique_ptr<char, Free> text(memory);
    for (ssize_t done = 0; done < size;) {
        const char *const at = text.get() + done;
        const auto left = static_cast<std::size_t>(size - done);
        const ssize_t part =
            redirected ? next_write(STDOUT_FILENO, at, left) : write(descriptor, at, left);
        if (part < 0) return -1;
        done += part;
    }
    return size;
}

// Writes the characters in the locale's encoding.
bool put(std::FILE *stream, std::wstring_view text) {
    std::string bytes;
    std::mbstate_t state{};
    for (const wchar_t letter : text) {
        char part[MB_LEN_MAX];
        const std::size_t size = std::wcrtomb(part, letter, &state);
        if (size == static_cast<std::size_t>(-1)) return false;
        bytes.append(part, size);
    }
    return std::fwrite(bytes.data(), 1, bytes.size(), stream) == bytes.size();
}

int print_wide(std::FILE *stream, const wchar_t *format, va_list arguments) {
    CLDIST_NEXT(vfwprintf);
    if (!is_own(stream)) return next(stream, format, arguments);
    wchar_t *memory = nullptr;
    std::size_t size = 0;
    std::FILE *const to = open_wmemstream(&memory, &size);
    if (to == nullptr) return -1;
    const int printed = next(to, format, arguments);
    std::fclose(to);
    const std::unique_ptr<wchar_t, Free> text(memory);
    return printed >= 0 && put(stream, {memory, size}) ? printed : -1;
}

}  // namespace
}  // namespace cldist::host

using namespace cldist::host;

// Defines a variadic function by one with a va_list.
#define CLDIST_PRINT(name, parameters, last, call) \
    CLDIST_IN_FRONT int name parameters {          \
        va_list arguments;                         \
        va_start(arguments, last);                 \
        const int result = call;                   \
        va_end(arguments);                         \
        return result;                             \
    }
#define CLDIST_CALLER __builtin_return_address(0)

// ---- Formatted output to descriptors. The functions with "chk" are those of _FORTIFY_SOURCE.

extern "C" {
int __dprintf_chk(int descriptor, int flag, const char *format, ...);
int __vdprintf_chk(int descriptor, int flag, const char *format, va_list arguments);
int __fwprintf_chk(std::FILE *stream, int flag, const wchar_t *format, ...);
int __vfwprintf_chk(std::FILE *stream, int flag, const wchar_t *format, va_list arguments);
}

CLDIST_PRINT(dprintf, (int descriptor, const char *format, ...), format,
             print_to(CLDIST_CALLER, descriptor, format, arguments))
CLDIST_PRINT(__dprintf_chk, (int descriptor, int, const char *format, ...), format,
             print_to(CLDIST_CALLER, descriptor, format, arguments))
CLDIST_IN_FRONT int vdprintf(int descriptor, const char *format, va_list arguments) {
    return print_to(CLDIST_CALLER, descriptor, format, arguments);
}
CLDIST_IN_FRONT int __vdprintf_chk(int descriptor, int, const char *format, va_list arguments) {
    return print_to(CLDIST_CALLER, descriptor, format, arguments);
}

// ---- Wide characters

CLDIST_PRINT(fwprintf, (std::FILE * stream, const wchar_t *format, ...), format,
             print_wide(stream, format, arguments))
CLDIST_PRINT(__fwprintf_chk, (std::FILE * stream, int, const wchar_t *format, ...), format,
             print_wide(stream, format, arguments))
CLDIST_IN_FRONT int vfwprintf(std::FILE *stream, const wchar_t *format, va_list arguments) {
    return print_wide(stream, format, arguments);
}
CLDIST_IN_FRONT int __vfwprintf_chk(std::FILE *stream, int, const wchar_t *format,
                                    va_list arguments) {
    return print_wide(stream, format, arguments);
}

CLDIST_IN_FRONT wint_t fputwc(wchar_t letter, std::FILE *stream) {
    CLDIST_NEXT(fputwc);
    if (!is_own(stream)) return next(letter, stream);
    return put(stream, {&letter, 1}) ? static_cast<wint_t>(letter) : WEOF;
}
CLDIST_ALIAS(wint_t, putwc, (wchar_t letter, std::FILE *stream), fputwc);
CLDIST_ALIAS(wint_t, fputwc_unlocked, (wchar_t letter, std::FILE *stream), fputwc);
CLDIST_ALIAS(wint_t, putwc_unlocked, (wchar_t letter, std::FILE *stream), fputwc);

CLDIST_IN_FRONT int fputws(const wchar_t *text, std::FILE *stream) {
    CLDIST_NEXT(fputws);
    if (!is_own(stream)) return next(text, stream);
    return put(stream, text) ? 1 : -1;
}
CLDIST_ALIAS(int, fputws_unlocked, (const wchar_t *text, std::FILE *stream), fputws);

CLDIST_IN_FRONT wint_t fgetwc(std::FILE *stream) {
    CLDIST_NEXT(fgetwc);
    if (!is_own(stream)) return next(stream);
    std::mbstate_t state{};
    for (int byte = 0; (byte = std::fgetc(stream)) != EOF;) {
        const char part = static_cast<char>(byte);
        wchar_t letter = 0;
        const std::size_t size = std::mbrtowc(&letter, &part, 1, &state);
        if (size == static_cast<std::size_t>(-1)) return WEOF;
        if (size <= 1) return static_cast<wint_t>(letter);
    }
    return WEOF;
}
CLDIST_ALIAS(wint_t, getwc, (std::FILE * stream), fgetwc);
CLDIST_ALIAS(wint_t, fgetwc_unlocked, (std::FILE * stream), fgetwc);
CLDIST_ALIAS(wint_t, getwc_unlocked, (std::FILE * stream), fgetwc);

CLDIST_IN_FRONT wchar_t *fgetws(wchar_t *text, int size, std::FILE *stream) {
    CLDIST_NEXT(fgetws);
    if (!is_own(stream)) return next(text, size, stream);
    int read = 0;
    while (read < size - 1 && (read == 0 || text[read - 1] != L'\n')) {
        const wint_t letter = fgetwc(stream);
        if (letter == WEOF) break;
        text[read++] = static_cast<wchar_t>(letter);
    }
    if (read == 0) return nullptr;
    text[read] = L'\0';
    return text;
}
CLDIST_ALIAS(wchar_t *, fgetws_unlocked, (wchar_t * text, int size, std::FILE *stream), fgetws);

// Generates kernels from the input, compiles them and derives their accesses. clang runs as a
// separate process, so there are only a few inputs per second.
#include "fuzz.hpp"

#include <string>

#include <fuzzer/FuzzedDataProvider.h>

#include "analysis/builtins.cpp"
#include "analysis/derive.cpp"
#include "analysis/entry.cpp"
#include "analysis/names.cpp"
#include "analysis/reached.cpp"
#include "analysis/source_lines.cpp"
#include "analysis/values.cpp"

namespace {

/// A kernel that compiles.
class KernelText {
public:
    explicit KernelText(FuzzedDataProvider &choices) : choices_(choices) {
        text_ =
            "kernel void k(global int *a, global const int *b, const int n, const uint m, const "
            "long l) {\n"
            "int x = 0; size_t s = get_global_id(0);\n";
        block(3);
        text_ += "}\n";
    }
    [[nodiscard]] const std::string &text() const { return text_; }

private:
    void block(int depth) {
        for (int i = choices_.ConsumeIntegralInRange(1, 3); i > 0; --i) statement(depth);
    }
    void statement(int depth) {
        switch (depth > 0 ? choices_.ConsumeIntegralInRange(0, 5) : 0) {
            default: text_ += "a[" + expression(3) + "] = " + expression(2) + ";\n"; return;
            case 1:
                text_ += (choices_.ConsumeBool() ? "x = " : "x += ") + expression(3) + ";\n";
                return;
            case 2: text_ += "s = " + expression(3) + ";\n"; return;
            case 3:
                text_ += "if (" + condition() + ") {\n";
                block(depth - 1);
                text_ += "}\n";
                if (choices_.ConsumeBool()) {
                    text_ += "else {\n";
                    block(depth - 1);
                    text_ += "}\n";
                }
                return;
            case 4: {
                const std::string name = "i" + std::to_string(loops_++);
                loop_ = name;
                text_ += "for (int " + name + " = " + expression(1) + "; " + name +
                         (choices_.ConsumeBool() ? " < " : " != ") + expression(1) + "; " + name +
                         " += " + std::to_string(choices_.ConsumeIntegralInRange(1, 3)) + ") {\n";
                block(depth - 1);
                if (choices_.ConsumeBool()) text_ += "if (" + condition() + ") break;\n";
                text_ += "}\n";
                loop_.clear();
                return;
            }
            case 5:
                text_ += "while (" + condition() + ") {\n";
                block(depth - 1);
                text_ += "}\n";
                return;
        }
    }
    std::string condition() {
        constexpr std::array compare{" < ", " <= ", " == ", " != ", " > ", " >= "};
        std::string text = expression(2) + choices_.PickValueInArray(compare) + expression(2);
        if (choices_.ConsumeBool())
            text += (choices_.ConsumeBool() ? " && " : " || ") + expression(1) + " > 0";
        return text;
    }
    std::string expression(int depth) {
        if (depth == 0 || choices_.ConsumeBool()) {
            switch (choices_.ConsumeIntegralInRange(0, 10)) {
                default: return "n";
                case 1: return "(int)get_global_id(0)";
                case 2: return "get_global_id(1)";
                case 3: return "get_local_id(0)";
                case 4: return "get_group_id(0)";
                case 5: return "x";
                case 6: return "s";
                case 7: return loop_.empty() ? "m" : loop_;
                case 8: return "l";
                case 9: return "get_global_size(0)";
                case 10:
                    return "(" + std::to_string(choices_.ConsumeIntegral<std::int32_t>()) + "L)";
            }
        }
        const std::string first = expression(depth - 1);
        const std::string second = expression(depth - 1);
        switch (choices_.ConsumeIntegralInRange(0, 12)) {
            default: return "(" + first + " + " + second + ")";
            case 1: return "(" + first + " - " + second + ")";
            case 2: return "(" + first + " * " + second + ")";
            case 3: return "(" + first + " / (" + second + " | 1))";
            case 4: return "(" + first + " % (" + second + " | 1))";
            case 5: return "((long)" + first + " << (" + second + " & 7))";
            case 6: return "((long)" + first + " >> (" + second + " & 7))";
            case 7: return "(" + first + " & " + second + ")";
            case 8: return "min((long)" + first + ", (long)" + second + ")";
            case 9: return "(" + first + " > 0 ? " + first + " : " + second + ")";
            case 10: return "b[" + first + "]";
            case 11: return "(uchar)" + first;
            case 12: return "mad24((int)" + first + ", 3, (int)" + second + ")";
        }
    }

    FuzzedDataProvider &choices_;
    std::string text_;
    std::string loop_;
    int loops_ = 0;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    FuzzedDataProvider choices(data, size);
    const KernelText kernel(choices);
    char *answer = nullptr;
    const int failed = cldist_analyse(kernel.text().c_str(), "", &answer);
    const std::string text = answer;
    std::free(answer);
    if (failed != 0) std::fprintf(stderr, "%s\n%s\n", text.c_str(), kernel.text().c_str());
    FUZZ_REQUIRE(failed == 0);
    FUZZ_REQUIRE(cldist::splitting::text_of(cldist::splitting::parse_descriptions(text)) == text);
    return 0;
}

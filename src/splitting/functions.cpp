#include "splitting/functions.hpp"

#include <array>

namespace cldist::splitting {
namespace {

class FunctionModel final : public AccessModel {
public:
    FunctionModel(MetaFunction is_read, MetaFunction is_written)
        : is_read_(is_read), is_written_(is_written) {}

    bool splittable(std::string &) const override { return true; }

    std::optional<std::vector<ArgumentAccess>> accesses(
        const Launch &launch, const SubRange &part,
        std::span<const Immediate> arguments) const override {
        std::vector<const void *> params;
        for (const Immediate &argument : arguments)
            params.push_back(argument.value.empty() ? nullptr : argument.value.data());
        std::vector<ArgumentAccess> accesses(arguments.size());
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            if (arguments[i].buffer_size == 0) continue;
            const Question question{launch, part, params, static_cast<unsigned>(i),
                                    arguments[i].buffer_size};
            auto read = ask(is_read_, question);
            auto written = ask(is_written_, question);
            if (!read || !written) return std::nullopt;
            accesses[i].read = std::move(*read);
            accesses[i].written = std::move(*written);
        }
        return accesses;
    }

private:
    struct Question {
        const Launch &launch;
        const SubRange &part;
        std::vector<const void *> &params;
        unsigned argument;
        std::size_t size;
    };

    /// Returns nothing if the function does not advance.
    static std::optional<Intervals> ask(MetaFunction function, const Question &question) {
        std::array<std::size_t, 3> size{};
        for (std::size_t i = 0; i < size.size(); ++i)
            size.at(i) = question.part.end.at(i) - question.part.begin.at(i);
        std::vector<Interval> ranges;
        for (std::size_t start = 0; start < question.size;) {
            std::size_t next = start;
            const int used = function(question.params.data(), question.launch.global.data(),
                                      size.data(), question.launch.local.data(),
                                      question.part.begin.data(), question.argument, start, &next);
            if (next <= start) return std::nullopt;
            if (next > question.size) next = question.size;
            if (used != 0) ranges.push_back({start, next});
            start = next;
        }
        return Intervals(std::move(ranges));
    }

    const MetaFunction is_read_;
    const MetaFunction is_written_;
};

}  // namespace

std::unique_ptr<AccessModel> model_from_functions(MetaFunction is_read, MetaFunction is_written) {
    return std::make_unique<FunctionModel>(is_read, is_written);
}

}  // namespace cldist::splitting

#include "collectives/landing.hpp"

#include <algorithm>
#include <list>
#include <set>

#include "ocl/query.hpp"

namespace cldist::collectives {
namespace {

// The memory of this many contexts is kept. It keeps the contexts alive.
constexpr std::size_t most_contexts_with_memory = 4;

struct Kept {
    Context context;
    cl_device_id writer;
    cl_device_id owner;
    std::shared_ptr<Landing> landing;
};

// Frees the memory of the context that was used first if there are too many.
void make_room(std::list<Kept> &kept) {
    std::set<cl_context> contexts;
    for (const Kept &each : kept) contexts.insert(each.context.get());
    if (contexts.size() < most_contexts_with_memory) return;
    kept.remove_if([first = kept.front().context.get()](const Kept &each) {
        return each.context.get() == first;
    });
}

}  // namespace

std::shared_ptr<Landing> Landing::between(cl_context context, cl_device_id writer,
                                          cl_device_id owner) {
    static std::mutex mutex;
    // Never destroyed, because the platform may be unloaded at exit.
    static auto &kept = *new std::list<Kept>;
    static auto &refused = *new std::set<std::pair<cl_device_id, cl_device_id>>;
    const std::lock_guard lock(mutex);
    const auto is_ours = [&](const Kept &each) { return each.context.get() == context; };
    for (const Kept &each : kept)
        if (is_ours(each) && each.writer == writer && each.owner == owner) return each.landing;
    if (writer == owner || refused.contains({writer, owner})) return nullptr;
    auto memory = PeerMemory::create({context, writer}, {context, owner});
    if (memory == nullptr) {
        refused.emplace(writer, owner);
        return nullptr;
    }
    if (std::ranges::none_of(kept, is_ours)) make_room(kept);
    kept.push_back(
        {Context::share(context), writer, owner, std::make_shared<Landing>(std::move(memory))});
    return kept.back().landing;
}

Landing::Piece *Landing::take(cl_command_queue writer, cl_command_queue owner) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        const std::size_t at = std::exchange(next_, (next_ + 1) % pieces_.size());
        Piece &piece = pieces_[at];
        piece.offset = at * piece_size;
        if (piece.last && execution_status(piece.last.get()) <= CL_COMPLETE) piece.last.reset();
        if (!piece.last || (writer != nullptr && piece.writer == writer && piece.owner == owner))
            return &piece;
    }
    return nullptr;
}

}  // namespace cldist::collectives

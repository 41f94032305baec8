#pragma once

#include "cluster/objects/lock.hpp"
#include "cluster/world/world.hpp"

namespace cldist::cluster {

/// Exchanges data with other processes during one OpenCL call (see Agreement). Releases the lock
/// during each exchange, unless calls must keep their order (HostMode). The caller must hold
/// references to objects that it needs afterwards, and construct this object before the call
/// releases the lock for the first time.
class Exchange {
public:
    Blob from(Process root, Blob said) const {
        if (agreement_.alone()) return said;
        const UnlockedWithin unlocked(leaves_lock_);
        return agreement_.from(call_, root, std::move(said));
    }
    /// `say(process)` returns the data of a process that this one speaks for.
    template <typename Say>
    std::vector<Blob> of(std::span<const Process> some, Say &&say) const {
        std::vector<Blob> said(some.size());
        for (std::size_t i = 0; i < some.size(); ++i)
            if (agreement_.speaks_for(some[i])) said[i] = say(some[i]);
        if (agreement_.alone()) return said;
        const UnlockedWithin unlocked(leaves_lock_);
        return agreement_.of(call_, some, std::move(said));
    }
    [[nodiscard]] int least(int mine) const {
        if (agreement_.alone()) return mine;
        const UnlockedWithin unlocked(leaves_lock_);
        return agreement_.least(call_, mine);
    }
    /// `work` is called under the lock.
    [[nodiscard]] int in_turn(std::span<const Process> some, int begin,
                              const std::function<int(int before)> &work) const {
        if (!leaves_lock_) return agreement_.in_turn(call_, some, begin, work);
        const auto locked = [&](int before) {
            const std::lock_guard lock(api_mutex());
            return work(before);
        };
        const Undecided undecided;
        const Unlocked unlocked;
        return agreement_.in_turn(call_, some, begin, locked);
    }

private:
    const Agreement &agreement_ = World::get().agreement();
    const bool leaves_lock_ = !World::mode().orders_calls();
    const CallHash call_ = World::get().calls().last();
};

}  // namespace cldist::cluster

#pragma once

#include "base/wakeup.hpp"
#include "events/command.hpp"

namespace cldist {

/// Work that all operations share. The progress thread polls it once per round, before the
/// operations.
class Poller {
public:
    Poller() = default;
    Poller(const Poller &) = delete;
    Poller &operator=(const Poller &) = delete;
    virtual ~Poller() = default;
    /// Returns true if there was progress.
    virtual bool poll() = 0;
    /// Called at least every few seconds, also while no command is active.
    virtual void tick() {}
};

/// Drives a started command to its end on the calling thread.
void drive(Command &command, Poller &poller);
/// The same for a command whose operations wake this thread through `wakeup`.
void drive(Command &command, Wakeup &wakeup);

}  // namespace cldist

#include "events/drive.hpp"

#include "base/backoff.hpp"

namespace cldist {

void drive(Command &command, Poller &poller) {
    Backoff backoff(caller_patience);
    for (;;) {
        const Progress progress = command.poll();
        if (progress == Progress::done) return;
        if (poller.poll() || progress == Progress::moved) {
            backoff.reset();
        } else {
            backoff.rest(command.bytes_in_flight());
        }
    }
}

void drive(Command &command, Wakeup &wakeup) {
    Backoff backoff;
    for (;;) {
        const Progress progress = command.poll();
        if (progress == Progress::done) return;
        if (progress == Progress::moved) {
            backoff.reset();
        } else if (command.wakes()) {
            wakeup.wait();
        } else if (const auto sleep = backoff.pause(true); sleep.count() > 0) {
            wakeup.wait_for(sleep);
        }
    }
}

}  // namespace cldist

// A process without the program executes the calls of the central host.
#include "cluster/api/following.hpp"

#include <array>

#include "base/log.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/guard.hpp"
#include "cluster/api/host_mode.hpp"
#include "cluster/world/world.hpp"

namespace cldist::cluster {
namespace {

/// An entry point that never leaves a command out.
template <auto body>
struct Whole {
    static constexpr auto value = body;
};
template <typename... Arguments, void (*body)(Handling, Arguments...)>
struct Whole<body> {
    static void call(Arguments... arguments) { body(Handling::enqueue, arguments...); }
    static constexpr auto value = &call;
};

/// Executes one call of the host. Only the host uses the result.
template <const Call &call, auto body>
struct Followed;
template <const Call &call, typename Result, typename... Arguments, Result (*body)(Arguments...)>
struct Followed<call, body> {
    static void make(RecordReader &reader) {
        {
            const Locked lock;
            ArgumentMemory memory;
            const CallArguments arguments = take_call(call, reader, memory);
            record(arguments);
            try {
                throttle(arguments);
                std::apply(body, typed_arguments<Arguments...>(arguments));
            } catch (...) {
                static_cast<void>(code_of_exception(call.function));
            }
        }
        run_callbacks();
    }
};

void forget_user_events(std::uint64_t queue_number) {
    const Locked lock;
    const auto handle = static_cast<cl_command_queue>(find_object(queue_number));
    if (QueueObject *const queue = QueueObject::from(handle))  // otherwise released meanwhile
        queue->user_events = {};
}

constexpr std::array calls_by_number{
#define CLDIST_CALL(function, entry, ...) &Followed<calls::function, Whole<&entry>::value>::make,
#define CLDIST_PLAIN(function, ...)
#define CLDIST_EXTENSION CLDIST_CALL
#define CLDIST_ABSENT(function)
#include "cluster/calls/calls.def"
};

static_assert(calls_by_number.size() < World::user_events_over);

}  // namespace

cl_int CL_API_CALL follow_host() {
    try {
        {
            const Locked lock;
            if (World::get().self() == 0) return CL_SUCCESS;
            if (host_mode().has_program()) return CL_INVALID_OPERATION;
        }
        World &world = World::get();
        for (;;) {
            RecordReader &reader = world.records();
            const std::uint64_t number = reader.number();
            if (number == World::end_of_calls) return CL_SUCCESS;
            if (number == World::user_events_over)
                forget_user_events(reader.number());
            else
                calls_by_number.at(number - 1)(reader);
        }
    } catch (const std::exception &error) {
        log_error("this worker cannot execute rank 0's calls any longer: {}", error.what());
        return CL_OUT_OF_RESOURCES;
    }
}

}  // namespace cldist::cluster

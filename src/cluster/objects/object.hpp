/// What all OpenCL objects of the cluster platform have in common.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <CL/cl.h>
#include <CL/cl_icd.h>

namespace cldist::cluster {

/// The platform's functions. Loaders find it through an object's first member.
extern const cl_icd_dispatch dispatch_table;

enum class Kind : std::uint32_t {
    none = 0,  // of an object that has been freed
    platform = 0x636c6430,
    device,
    context,
    queue,
    memory,
    sampler,
    program,
    kernel,
    event,
};

struct Head {
    const cl_icd_dispatch *dispatch;
    Kind kind;
    /// From 1, in the order of creation, which is the same in all processes.
    std::uint64_t number = 0;
};

}  // namespace cldist::cluster

// What OpenCL's handles point to; loaders only know the first member.
struct _cl_platform_id : cldist::cluster::Head {};
struct _cl_device_id : cldist::cluster::Head {};
struct _cl_context : cldist::cluster::Head {};
struct _cl_command_queue : cldist::cluster::Head {};
struct _cl_mem : cldist::cluster::Head {};
struct _cl_sampler : cldist::cluster::Head {};
struct _cl_program : cldist::cluster::Head {};
struct _cl_kernel : cldist::cluster::Head {};
struct _cl_event : cldist::cluster::Head {};

namespace cldist::cluster {

/// The number of the object that a handle points to; 0 if it is no object that the program can
/// have.
inline std::uint64_t number_of(const Head *handle) {
    return handle != nullptr && handle->kind != Kind::none ? handle->number : 0;
}

/// How many objects of a kind there were, and what they take.
struct ObjectCount {
    std::uint64_t made = 0;
    std::uint64_t living = 0;
    std::uint64_t most = 0;  ///< living at a time
    std::size_t size = 0;    ///< bytes of each
    /// That those which have ended took besides, in lists of their own.
    std::uint64_t more_bytes = 0;

    /// The average of one object.
    [[nodiscard]] std::uint64_t bytes() const {
        const std::uint64_t ended = made - living;
        return size + (ended != 0 ? more_bytes / ended : 0);
    }
};
/// By kind, from that of platforms on. Under the lock.
inline std::array<ObjectCount, 9> object_counts;
inline ObjectCount &count_of(Kind kind) {
    return object_counts[static_cast<std::uint32_t>(kind) -
                         static_cast<std::uint32_t>(Kind::platform)];
}

/// Where this process follows another one's calls (central host): the objects by their numbers;
/// else null. Under the lock.
inline std::unordered_map<std::uint64_t, void *> *objects_by_number = nullptr;

/// Has an object that nobody holds end under the lock, when the call that has it ends, or else on
/// the thread of callbacks. Any thread.
void end_later(void *object, void (*end)(void *));

/// Base of an OpenCL object, made with new. Lives as long as the program has references to it
/// (clRetain…, which CL_…_REFERENCE_COUNT tells) or anything here holds it (Ref), on whatever
/// threads; then it ends by end_later(). Counting is thread-safe.
template <typename Derived, typename Handle, Kind kind_of_object>
class Object : public std::remove_pointer_t<Handle> {
public:
    Object() : std::remove_pointer_t<Handle>{{&dispatch_table, kind_of_object}} {
        ObjectCount &count = count_of(kind_of_object);
        count.size = sizeof(Derived);
        ++count.made;
        count.most = std::max(count.most, ++count.living);
    }
    Object(const Object &) = delete;
    Object &operator=(const Object &) = delete;

    /// Null if the handle is null or something else.
    static Derived *from(Handle handle) {
        if (handle == nullptr || handle->kind != kind_of_object) return nullptr;
        return static_cast<Derived *>(static_cast<Object *>(handle));
    }
    Handle handle() { return this; }

    /// The program's references.
    void retain() {
        if (references_++ == 0) hold();
    }
    void release() {
        if (--references_ == 0) drop();
    }
    [[nodiscard]] cl_uint references() const { return references_; }

    void hold() { ++holders_; }
    void drop() {
        if (--holders_ == 0)
            end_later(static_cast<Derived *>(this),
                      [](void *object) { delete static_cast<Derived *>(object); });
    }

    void set_number(std::uint64_t number_in) {
        this->number = number_in;
        if (objects_by_number != nullptr) objects_by_number->emplace(number_in, handle());
    }

protected:
    ~Object() {
        this->kind = Kind::none;
        if (objects_by_number != nullptr) objects_by_number->erase(this->number);
        --count_of(kind_of_object).living;
    }

private:
    std::atomic<cl_uint> references_ = 1;
    std::atomic<std::uint32_t> holders_ = 1;  // the program, while it has references, counts as one
};

/// All memory objects and samplers, by handle. They distinguish handles from other values of a
/// kernel's arguments if the native platform does not. Under the lock.
std::unordered_map<const void *, Kind> &argument_objects();

/// Has the program's callback called by this thread once it is without locks.
void call_later(std::function<void()> callback);
/// Calls them.
void run_later_callbacks();
/// The same for every call: where nobody has any, which is so nearly always, it asks no list of the
/// thread's.
inline std::atomic<unsigned> later_callbacks = 0;
inline void run_callbacks() {
    if (later_callbacks.load(std::memory_order_relaxed) != 0) run_later_callbacks();
}
/// Has the program's callback called by a thread that does nothing else. Any thread.
void call_elsewhere(std::function<void()> callback);
/// The program has ended: none of its callbacks is called any more.
void stop_callbacks();
/// Whether this is that thread: it calls at another moment in each process.
bool in_callback();

/// The program's callbacks at the end of an object.
template <typename Handle>
using EndCallbacks = std::vector<std::pair<void(CL_CALLBACK *)(Handle, void *), void *>>;
/// Has them called in the reverse order, by call_later() or call_elsewhere().
template <typename Handle>
void call_at_end(const EndCallbacks<Handle> &callbacks, Handle object,
                 void (&call)(std::function<void()>)) {
    for (auto at = callbacks.rbegin(); at != callbacks.rend(); ++at)
        call([callback = *at, object] { callback.first(object, callback.second); });
}

/// Holds an object.
template <typename T>
class Ref {
public:
    Ref() = default;
    explicit Ref(T *object) : object_(object) {
        if (object_ != nullptr) object_->hold();
    }
    Ref(const Ref &other) : Ref(other.object_) {}
    Ref(Ref &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref &operator=(Ref other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Ref() {
        if (object_ != nullptr) object_->drop();
    }

    [[nodiscard]] T *get() const { return object_; }
    T *operator->() const { return object_; }
    T &operator*() const { return *object_; }
    explicit operator bool() const { return object_ != nullptr; }

private:
    T *object_ = nullptr;
};

/// Knows an object for as long as it lives, without holding it. Under the lock. T has `life`, a
/// shared_ptr.
template <typename T>
class Weak {
public:
    Weak() = default;
    explicit Weak(T *object) : object_(object) {
        if (object_ != nullptr) life_ = object_->life;
    }
    /// Null if there was none, or it has been freed.
    [[nodiscard]] T *get() const { return gone() ? nullptr : object_; }
    [[nodiscard]] bool gone() const { return object_ != nullptr && life_.expired(); }

private:
    T *object_ = nullptr;
    std::weak_ptr<const void> life_;
};

}  // namespace cldist::cluster

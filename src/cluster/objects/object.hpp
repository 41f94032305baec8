/// The base of all OpenCL objects of the cluster platform.
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

/// The platform's functions. The ICD loader finds the table through an object's first member.
extern const cl_icd_dispatch dispatch_table;

enum class Kind : std::uint32_t {
    none = 0,  // the object has been freed
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
    /// From 1, in the order of creation. The same in all processes.
    std::uint64_t number = 0;
};

}  // namespace cldist::cluster

// OpenCL handles point to these. The ICD loader only knows their first member.
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

/// The number of a handle's object; 0 if the handle is null or the object has been freed.
inline std::uint64_t number_of(const Head *handle) {
    return handle != nullptr && handle->kind != Kind::none ? handle->number : 0;
}

/// Statistics of the objects of one kind.
struct ObjectCount {
    std::uint64_t made = 0;
    std::uint64_t living = 0;
    std::uint64_t most = 0;        ///< largest number living at the same time
    std::size_t size = 0;          ///< bytes of one object, without its lists
    std::uint64_t more_bytes = 0;  ///< bytes of the freed objects' lists

    /// The average bytes of an object with its lists.
    [[nodiscard]] std::uint64_t bytes() const {
        const std::uint64_t ended = made - living;
        return size + (ended != 0 ? more_bytes / ended : 0);
    }
};
/// By kind, from Kind::platform on. Under the lock.
inline std::array<ObjectCount, 9> object_counts;
inline ObjectCount &count_of(Kind kind) {
    return object_counts[static_cast<std::uint32_t>(kind) -
                         static_cast<std::uint32_t>(Kind::platform)];
}

/// The objects by number, in a process that executes another process's calls (central host).
/// Otherwise null. Under the lock.
inline std::unordered_map<std::uint64_t, void *> *objects_by_number = nullptr;
/// Null if there is no such object.
inline void *find_object(std::uint64_t number) {
    const auto at = objects_by_number->find(number);
    return at != objects_by_number->end() ? at->second : nullptr;
}

/// Frees an object without holders under the lock: at the end of the current call if the calling
/// thread holds the lock, otherwise on the callback thread. Any thread.
void end_later(void *object, void (*end)(void *));

/// Base of an OpenCL object, which must be created with `new`. The object lives as long as the
/// program has references to it (clRetain…, CL_…_REFERENCE_COUNT) or the platform holds it (Ref).
/// Then end_later() frees it. Both counts are thread-safe.
template <typename Derived, typename Handle, Kind kind_of_object>
class Object : public std::remove_pointer_t<Handle> {
public:
    Object() : std::remove_pointer_t<Handle>{{&dispatch_table, kind_of_object}} {
        ObjectCount &count = count_of(kind_of_object);
        count.size = sizeof(Derived);
        ++count.made;
        count.most = std::max(count.most, ++count.living);
    }

    /// Null if the handle is null or not an object of this kind.
    static Derived *from(Handle handle) {
        if (handle == nullptr || handle->kind != kind_of_object) return nullptr;
        return static_cast<Derived *>(static_cast<Object *>(handle));
    }
    Handle handle() { return this; }

    /// Adds a reference of the program.
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
    std::atomic<std::uint32_t> holders_ = 1;  // all references of the program count as one holder
};

/// Keeps records of objects. Called under the lock.
template <typename T>
class Keeper {
public:
    /// Called when the object is about to be freed.
    virtual void forget(T &object) = 0;

protected:
    ~Keeper() = default;
};

/// All memory objects and samplers, by handle. With it, handles among a kernel's arguments are
/// recognised if the native platform does not report the arguments' types. Under the lock.
std::unordered_map<const void *, Kind> &argument_objects();

/// Queues a callback of the program, which the calling thread runs when it holds no lock.
void call_later(std::function<void()> callback);
void run_later_callbacks();
/// The number of queued callbacks of all threads.
inline std::atomic<unsigned> later_callbacks = 0;
/// The same for every OpenCL call. Fast in the usual case that no thread has queued callbacks.
inline void run_callbacks() {
    if (later_callbacks.load(std::memory_order_relaxed) != 0) run_later_callbacks();
}
/// Passes a function, usually a callback of the program, to the callback thread. Any thread.
void call_elsewhere(std::function<void()> callback);
/// Called at the end of the program. Afterwards the callback thread drops all functions.
void stop_callbacks();
/// Whether this is the callback thread. It runs callbacks at different times in each process.
bool in_callback();

/// The program's destructor callbacks of an object.
template <typename Handle>
using EndCallbacks = std::vector<std::pair<void(CL_CALLBACK *)(Handle, void *), void *>>;
/// Passes the callbacks in reverse order to `call`, which is call_later() or call_elsewhere().
template <typename Handle>
void call_at_end(const EndCallbacks<Handle> &callbacks, Handle object,
                 void (&call)(std::function<void()>)) {
    for (auto at = callbacks.rbegin(); at != callbacks.rend(); ++at)
        call([callback = *at, object] { callback.first(object, callback.second); });
}

/// Holds an object for its lifetime. The program's references are counted separately.
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

/// A weak reference to an object. Used under the lock. T must have a shared_ptr `life`.
template <typename T>
class Weak {
public:
    Weak() = default;
    explicit Weak(T *object) : object_(object) {
        if (object_ != nullptr) life_ = object_->life;
    }
    /// Null if there was no object or it has been freed.
    [[nodiscard]] T *get() const { return gone() ? nullptr : object_; }
    [[nodiscard]] bool gone() const { return object_ != nullptr && life_.expired(); }

private:
    T *object_ = nullptr;
    std::weak_ptr<const void> life_;
};

}  // namespace cldist::cluster

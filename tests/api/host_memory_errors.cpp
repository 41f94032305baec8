/// Argument errors of MPI calls with MPI_CL_MEM. Each case tries one error in every call in which
/// it can occur.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

int class_of(int code) {
    int error_class = -1;
    MPI_Error_class(code, &error_class);
    return error_class;
}

/// The other side of a `mixed_` call has the datatype MPI_BYTE.
enum class host_call {
    send,
    ssend,
    isend,
    issend,
    sendrecv_send,
    mixed_send,
    recv,
    irecv,
    sendrecv_recv,
    mixed_recv
};
constexpr std::array calls{host_call::send,      host_call::ssend,         host_call::isend,
                           host_call::issend,    host_call::sendrecv_send, host_call::mixed_send,
                           host_call::recv,      host_call::irecv,         host_call::sendrecv_recv,
                           host_call::mixed_recv};

bool host_sends(host_call which) { return which <= host_call::mixed_send; }

/// The arguments of a call. Initially all are valid.
struct arguments {
    void *data;
    int count = 8;
    int peer = 0;
    int tag = 7;
    MPI_Comm comm;
};

int issue(host_call which, const arguments &a) {
    static unsigned char other[8];
    MPI_Request request = MPI_REQUEST_NULL;
    switch (which) {
        case host_call::send: return MPI_Send(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, a.comm);
        case host_call::ssend: return MPI_Ssend(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, a.comm);
        case host_call::isend:
            return MPI_Isend(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, a.comm, &request);
        case host_call::issend:
            return MPI_Issend(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, a.comm, &request);
        case host_call::recv:
            return MPI_Recv(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, a.comm, MPI_STATUS_IGNORE);
        case host_call::irecv:
            return MPI_Irecv(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, a.comm, &request);
        case host_call::sendrecv_send:
            return MPI_Sendrecv(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, other, 8, MPI_CL_MEM, 0,
                                7, a.comm, MPI_STATUS_IGNORE);
        case host_call::sendrecv_recv:
            return MPI_Sendrecv(other, 8, MPI_CL_MEM, 0, 7, a.data, a.count, MPI_CL_MEM, a.peer,
                                a.tag, a.comm, MPI_STATUS_IGNORE);
        case host_call::mixed_send:
            return MPI_Sendrecv(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, other, 8, MPI_BYTE, 0,
                                7, a.comm, MPI_STATUS_IGNORE);
        case host_call::mixed_recv:
            return MPI_Sendrecv(other, 8, MPI_BYTE, 0, 7, a.data, a.count, MPI_CL_MEM, a.peer,
                                a.tag, a.comm, MPI_STATUS_IGNORE);
    }
    return MPI_SUCCESS;
}

/// Checks that every call selected by `concerns` fails with `error_class` and sends nothing.
template <typename Change, typename Concerns>
void expect_error(const mpi_view &mpi, int error_class, Change &&change, Concerns &&concerns) {
    MPI_Errhandler before = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(mpi.comm, MPI_ERRORS_RETURN);
    unsigned char data[8] = {};
    for (const host_call which : calls) {
        if (!concerns(which)) {
            continue;
        }
        CAPTURE(static_cast<int>(which));
        arguments a{data, 8, mpi.rank, 7, mpi.comm};
        change(a);
        CHECK(class_of(issue(which, a)) == error_class);
        int found = 1;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mpi.comm, &found, MPI_STATUS_IGNORE);
        CHECK(found == 0);
    }
    MPI_Comm_set_errhandler(mpi.comm, before);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
    MPI_Errhandler_free(&before);
}

bool any(host_call) { return true; }

}  // namespace

MPI_CASE("with MPI_CL_MEM, a negative count is an MPI_ERR_COUNT", 1) {
    expect_error(
        mpi, MPI_ERR_COUNT, [](arguments &a) { a.count = -1; }, any);
}
MPI_CASE("with MPI_CL_MEM, a null buffer is an MPI_ERR_BUFFER", 1) {
    expect_error(
        mpi, MPI_ERR_BUFFER, [](arguments &a) { a.data = nullptr; }, any);
}
MPI_CASE("with MPI_CL_MEM, a rank outside of the communicator is an MPI_ERR_RANK", 1) {
    expect_error(
        mpi, MPI_ERR_RANK, [&](arguments &a) { a.peer = mpi.size; }, any);
    expect_error(
        mpi, MPI_ERR_RANK, [](arguments &a) { a.peer = -77; }, any);
    expect_error(
        mpi, MPI_ERR_RANK, [](arguments &a) { a.peer = MPI_ANY_SOURCE; }, host_sends);
}
MPI_CASE("with MPI_CL_MEM, a tag out of range is an MPI_ERR_TAG", 1) {
    expect_error(
        mpi, MPI_ERR_TAG, [](arguments &a) { a.tag = -77; }, any);
    expect_error(
        mpi, MPI_ERR_TAG, [](arguments &a) { a.tag = MPI_ANY_TAG; }, host_sends);
}
MPI_CASE("with MPI_CL_MEM, MPI_COMM_NULL is an MPI_ERR_COMM", 1) {
    expect_error(
        mpi, MPI_ERR_COMM, [](arguments &a) { a.comm = MPI_COMM_NULL; }, any);
}
MPI_CASE("an MPI_Sendrecv with MPI_CL_MEM on one side sends nothing if the other side is wrong",
         1) {
    MPI_OK(MPI_Comm_set_errhandler(mpi.comm, MPI_ERRORS_RETURN));
    unsigned char out[8] = {};
    unsigned char in[8] = {};
    CHECK(class_of(MPI_Sendrecv(out, 8, MPI_CL_MEM, 0, 7, in, 8, MPI_BYTE, mpi.size, 7, mpi.comm,
                                MPI_STATUS_IGNORE)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Sendrecv(out, 8, MPI_BYTE, mpi.size, 7, in, 8, MPI_CL_MEM, 0, 7, mpi.comm,
                                MPI_STATUS_IGNORE)) == MPI_ERR_RANK);
    int found = 1;
    MPI_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mpi.comm, &found, MPI_STATUS_IGNORE));
    CHECK(found == 0);
}

namespace {

/// Checks that the call fails with MPI_ERR_TYPE, and that the handler of its communicator, file or
/// window is called once.
#define REFUSED(call)                                      \
    do {                                                   \
        reported = 0;                                      \
        const int error_class = class_of(call);            \
        CHECK_MESSAGE(error_class == MPI_ERR_TYPE, #call); \
        CHECK_MESSAGE(reported == 1, #call);               \
    } while (false)

int reported = 0;

void note_comm_error(MPI_Comm * /*comm*/, int * /*code*/, ...) { ++reported; }
void note_window_error(MPI_Win * /*window*/, int * /*code*/, ...) { ++reported; }
void note_file_error(MPI_File * /*file*/, int * /*code*/, ...) { ++reported; }

/// During its life, `reported` counts the errors of a communicator and of MPI_COMM_WORLD.
class errors_counted {
public:
    explicit errors_counted(MPI_Comm comm_in) : comm(comm_in) {
        MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
        MPI_Errhandler counting = MPI_ERRHANDLER_NULL;
        MPI_Comm_create_errhandler(&note_comm_error, &counting);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, counting);
        MPI_Comm_set_errhandler(comm, counting);
        MPI_Errhandler_free(&counting);
    }
    ~errors_counted() {
        MPI_Comm_set_errhandler(comm, before);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
        MPI_Errhandler_free(&before);
    }
    errors_counted(const errors_counted &) = delete;
    errors_counted &operator=(const errors_counted &) = delete;

private:
    MPI_Comm comm;
    MPI_Errhandler before = MPI_ERRHANDLER_NULL;
};

/// Further arguments of collective calls with MPI_CL_MEM.
struct collective_arguments {
    unsigned char in[8] = {};
    unsigned char out[8] = {};
    int count = 1;
    int displacement = 0;
    MPI_Aint distance = 0;
    MPI_Datatype type = MPI_CL_MEM;
    MPI_Request request = MPI_REQUEST_NULL;
};

void keep_first(void * /*in*/, void * /*inout*/, int * /*count*/, MPI_Datatype * /*type*/) {}

}  // namespace

MPI_CASE("messages of other kinds refuse MPI_CL_MEM", 1) {
    const errors_counted counted(mpi.comm);
    collective_arguments a;
    const int me = mpi.rank;
    REFUSED(MPI_Bsend(a.in, 8, MPI_CL_MEM, me, 1, mpi.comm));
    REFUSED(MPI_Rsend(a.in, 8, MPI_CL_MEM, me, 1, mpi.comm));
    REFUSED(MPI_Ibsend(a.in, 8, MPI_CL_MEM, me, 1, mpi.comm, &a.request));
    REFUSED(MPI_Irsend(a.in, 8, MPI_CL_MEM, me, 1, mpi.comm, &a.request));
    REFUSED(MPI_Send_init(a.in, 8, MPI_CL_MEM, me, 1, mpi.comm, &a.request));
    REFUSED(MPI_Bsend_init(a.in, 8, MPI_CL_MEM, me, 1, mpi.comm, &a.request));
    REFUSED(MPI_Ssend_init(a.in, 8, MPI_CL_MEM, me, 1, mpi.comm, &a.request));
    REFUSED(MPI_Rsend_init(a.in, 8, MPI_CL_MEM, me, 1, mpi.comm, &a.request));
    REFUSED(MPI_Recv_init(a.out, 8, MPI_CL_MEM, me, 1, mpi.comm, &a.request));
    REFUSED(MPI_Sendrecv_replace(a.in, 8, MPI_CL_MEM, me, 1, me, 1, mpi.comm, MPI_STATUS_IGNORE));
#ifdef CLDIST_MPI_4_CALLS
    REFUSED(
        MPI_Isendrecv(a.in, 8, MPI_CL_MEM, me, 1, a.out, 8, MPI_BYTE, me, 1, mpi.comm, &a.request));
    REFUSED(
        MPI_Isendrecv(a.in, 8, MPI_BYTE, me, 1, a.out, 8, MPI_CL_MEM, me, 1, mpi.comm, &a.request));
    REFUSED(MPI_Isendrecv_replace(a.in, 8, MPI_CL_MEM, me, 1, me, 1, mpi.comm, &a.request));
#endif
    int found = 1;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mpi.comm, &found, MPI_STATUS_IGNORE);
    CHECK(found == 0);
}

MPI_CASE("partitioned messages refuse MPI_CL_MEM", 1) {
#ifdef CLDIST_MPI_4_CALLS
    const errors_counted counted(mpi.comm);
    collective_arguments a;
    REFUSED(
        MPI_Psend_init(a.in, 2, 4, MPI_CL_MEM, mpi.rank, 1, mpi.comm, MPI_INFO_NULL, &a.request));
    REFUSED(
        MPI_Precv_init(a.out, 2, 4, MPI_CL_MEM, mpi.rank, 1, mpi.comm, MPI_INFO_NULL, &a.request));
#else
    skip_case("this MPI library has no partitioned messages");
#endif
}

MPI_CASE("blocking, non-blocking and persistent collective calls refuse MPI_CL_MEM", 1) {
    const errors_counted counted(mpi.comm);
    collective_arguments a;
    MPI_Comm comm = mpi.comm;
    // Predefined operators are not valid for MPI_CL_MEM, but user-defined ones may be.
    MPI_Op op = MPI_OP_NULL;
    MPI_OK(MPI_Op_create(&keep_first, 1, &op));
    std::vector<int> counts(static_cast<std::size_t>(mpi.size), 1);
    std::vector<int> places(counts.size(), 0);
    std::vector<MPI_Datatype> types(counts.size(), MPI_CL_MEM);
    std::vector<unsigned char> all(counts.size() * 8);
    const int *n = counts.data();
    const int *at = places.data();
    const MPI_Datatype *t = types.data();
    unsigned char *in = a.in;
    unsigned char *out = all.data();
#define EACH_COLLECTIVE(CALL)                                                          \
    CALL(Bcast, bcast, in, 1, MPI_CL_MEM, 0, comm)                                     \
    CALL(Gather, gather, in, 1, MPI_CL_MEM, out, 1, MPI_BYTE, 0, comm)                 \
    CALL(Gatherv, gatherv, in, 1, MPI_CL_MEM, out, n, at, MPI_BYTE, 0, comm)           \
    CALL(Scatter, scatter, in, 1, MPI_CL_MEM, out, 1, MPI_CL_MEM, 0, comm)             \
    CALL(Scatterv, scatterv, in, n, at, MPI_BYTE, out, 1, MPI_CL_MEM, 0, comm)         \
    CALL(Allgather, allgather, in, 1, MPI_BYTE, out, 1, MPI_CL_MEM, comm)              \
    CALL(Allgatherv, allgatherv, in, 1, MPI_CL_MEM, out, n, at, MPI_BYTE, comm)        \
    CALL(Alltoall, alltoall, out, 1, MPI_CL_MEM, out, 1, MPI_CL_MEM, comm)             \
    CALL(Alltoallv, alltoallv, in, n, at, MPI_BYTE, out, n, at, MPI_CL_MEM, comm)      \
    CALL(Alltoallw, alltoallw, in, n, at, t, out, n, at, t, comm)                      \
    CALL(Reduce, reduce, in, out, 1, MPI_CL_MEM, op, 0, comm)                          \
    CALL(Allreduce, allreduce, in, out, 1, MPI_CL_MEM, op, comm)                       \
    CALL(Reduce_scatter, reduce_scatter, in, out, n, MPI_CL_MEM, op, comm)             \
    CALL(Reduce_scatter_block, reduce_scatter_block, in, out, 1, MPI_CL_MEM, op, comm) \
    CALL(Scan, scan, in, out, 1, MPI_CL_MEM, op, comm)                                 \
    CALL(Exscan, exscan, in, out, 1, MPI_CL_MEM, op, comm)
#define BLOCKING(name, lower, ...) REFUSED(MPI_##name(__VA_ARGS__));
#define NON_BLOCKING(name, lower, ...) REFUSED(MPI_I##lower(__VA_ARGS__, &a.request));
#define PERSISTENT(name, lower, ...) \
    REFUSED(MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &a.request));
    EACH_COLLECTIVE(BLOCKING)
    EACH_COLLECTIVE(NON_BLOCKING)
#ifdef CLDIST_MPI_4_CALLS
    EACH_COLLECTIVE(PERSISTENT)
#endif
    REFUSED(MPI_Reduce_local(in, out, 1, MPI_CL_MEM, op));

    MPI_Comm ring = MPI_COMM_NULL;
    const int one = 1;
    MPI_OK(MPI_Cart_create(mpi.comm, 1, &mpi.size, &one, 0, &ring));
    std::optional<errors_counted> ring_counted(ring);
    comm = ring;
    const std::vector<MPI_Aint> places_of_two(2, 0);
    const std::vector<int> two(2, 1);
    const std::vector<int> places_two(2, 0);
    const std::vector<MPI_Datatype> types_of_two(2, MPI_CL_MEM);
    const MPI_Aint *far = places_of_two.data();
    n = two.data();
    at = places_two.data();
    t = types_of_two.data();
    unsigned char pair[16] = {};
    out = pair;
#define EACH_OF_NEIGHBOURS(CALL)                                                                  \
    CALL(Neighbor_allgather, neighbor_allgather, in, 1, MPI_CL_MEM, out, 1, MPI_BYTE, comm)       \
    CALL(Neighbor_allgatherv, neighbor_allgatherv, in, 1, MPI_CL_MEM, out, n, at, MPI_BYTE, comm) \
    CALL(Neighbor_alltoall, neighbor_alltoall, in, 1, MPI_BYTE, out, 1, MPI_CL_MEM, comm)         \
    CALL(Neighbor_alltoallv, neighbor_alltoallv, in, n, at, MPI_CL_MEM, out, n, at, MPI_BYTE,     \
         comm)                                                                                    \
    CALL(Neighbor_alltoallw, neighbor_alltoallw, in, n, far, t, out, n, far, t, comm)
    EACH_OF_NEIGHBOURS(BLOCKING)
    EACH_OF_NEIGHBOURS(NON_BLOCKING)
#ifdef CLDIST_MPI_4_CALLS
    EACH_OF_NEIGHBOURS(PERSISTENT)
#endif
    ring_counted.reset();
    MPI_OK(MPI_Op_free(&op));
    MPI_OK(MPI_Comm_free(&ring));
}

MPI_CASE("one-sided calls refuse MPI_CL_MEM", 1) {
    const errors_counted counted(mpi.comm);
    collective_arguments a;
    void *memory = nullptr;
    MPI_Win window = MPI_WIN_NULL;
    // With MPI_THREAD_MULTIPLE, Open MPI 4.1 cannot create windows of arbitrary memory.
    if (MPI_Win_allocate(64, 1, MPI_INFO_NULL, mpi.comm, &memory, &window) != MPI_SUCCESS) {
        skip_case("this MPI library cannot create a window");
    }
    MPI_Errhandler counting = MPI_ERRHANDLER_NULL;
    MPI_OK(MPI_Win_create_errhandler(&note_window_error, &counting));
    MPI_OK(MPI_Win_set_errhandler(window, counting));
    MPI_OK(MPI_Errhandler_free(&counting));
    MPI_OK(MPI_Win_lock_all(0, window));
    const int me = mpi.rank;
    REFUSED(MPI_Put(a.in, 4, MPI_CL_MEM, me, 0, 4, MPI_BYTE, window));
    REFUSED(MPI_Put(a.in, 4, MPI_BYTE, me, 0, 4, MPI_CL_MEM, window));
    REFUSED(MPI_Get(a.out, 4, MPI_CL_MEM, me, 0, 4, MPI_CL_MEM, window));
    REFUSED(MPI_Accumulate(a.in, 4, MPI_CL_MEM, me, 0, 4, MPI_CL_MEM, MPI_REPLACE, window));
    REFUSED(MPI_Get_accumulate(a.in, 4, MPI_BYTE, a.out, 4, MPI_CL_MEM, me, 0, 4, MPI_BYTE,
                               MPI_REPLACE, window));
    REFUSED(MPI_Fetch_and_op(a.in, a.out, MPI_CL_MEM, me, 0, MPI_REPLACE, window));
    REFUSED(MPI_Compare_and_swap(a.in, a.in, a.out, MPI_CL_MEM, me, 0, window));
    REFUSED(MPI_Rput(a.in, 4, MPI_CL_MEM, me, 0, 4, MPI_CL_MEM, window, &a.request));
    REFUSED(MPI_Rget(a.out, 4, MPI_BYTE, me, 0, 4, MPI_CL_MEM, window, &a.request));
    REFUSED(MPI_Raccumulate(a.in, 4, MPI_CL_MEM, me, 0, 4, MPI_CL_MEM, MPI_REPLACE, window,
                            &a.request));
    REFUSED(MPI_Rget_accumulate(a.in, 4, MPI_CL_MEM, a.out, 4, MPI_CL_MEM, me, 0, 4, MPI_CL_MEM,
                                MPI_REPLACE, window, &a.request));
    MPI_OK(MPI_Win_unlock_all(window));
    MPI_OK(MPI_Win_free(&window));
}

MPI_CASE("calls on files refuse MPI_CL_MEM", 1) {
    const errors_counted counted(mpi.comm);
    collective_arguments a;
    MPI_File file = MPI_FILE_NULL;
    MPI_OK(MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_Errhandler counting = MPI_ERRHANDLER_NULL;
    MPI_OK(MPI_File_create_errhandler(&note_file_error, &counting));
    MPI_OK(MPI_File_set_errhandler(file, counting));
    MPI_OK(MPI_Errhandler_free(&counting));
    REFUSED(MPI_File_set_view(file, 0, MPI_CL_MEM, MPI_BYTE, "native", MPI_INFO_NULL));
    REFUSED(MPI_File_set_view(file, 0, MPI_BYTE, MPI_CL_MEM, "native", MPI_INFO_NULL));
#define READ_AND_WRITE(form, what)                                  \
    REFUSED(MPI_File_read##form(file, a.out, 4, MPI_CL_MEM, what)); \
    REFUSED(MPI_File_write##form(file, a.in, 4, MPI_CL_MEM, what));
#define READ_AND_WRITE_AT(form, what)                                  \
    REFUSED(MPI_File_read##form(file, 0, a.out, 4, MPI_CL_MEM, what)); \
    REFUSED(MPI_File_write##form(file, 0, a.in, 4, MPI_CL_MEM, what));
#define BEGIN_READ_AND_WRITE(form)                            \
    REFUSED(MPI_File_read##form(file, a.out, 4, MPI_CL_MEM)); \
    REFUSED(MPI_File_write##form(file, a.in, 4, MPI_CL_MEM));
    READ_AND_WRITE(, MPI_STATUS_IGNORE)
    READ_AND_WRITE(_all, MPI_STATUS_IGNORE)
    READ_AND_WRITE(_shared, MPI_STATUS_IGNORE)
    READ_AND_WRITE(_ordered, MPI_STATUS_IGNORE)
    READ_AND_WRITE_AT(_at, MPI_STATUS_IGNORE)
    READ_AND_WRITE_AT(_at_all, MPI_STATUS_IGNORE)
    BEGIN_READ_AND_WRITE(_all_begin)
    BEGIN_READ_AND_WRITE(_ordered_begin)
    REFUSED(MPI_File_read_at_all_begin(file, 0, a.out, 4, MPI_CL_MEM));
    REFUSED(MPI_File_write_at_all_begin(file, 0, a.in, 4, MPI_CL_MEM));
    REFUSED(MPI_File_iread(file, a.out, 4, MPI_CL_MEM, &a.request));
    REFUSED(MPI_File_iwrite(file, a.in, 4, MPI_CL_MEM, &a.request));
    REFUSED(MPI_File_iread_all(file, a.out, 4, MPI_CL_MEM, &a.request));
    REFUSED(MPI_File_iwrite_all(file, a.in, 4, MPI_CL_MEM, &a.request));
    REFUSED(MPI_File_iread_shared(file, a.out, 4, MPI_CL_MEM, &a.request));
    REFUSED(MPI_File_iwrite_shared(file, a.in, 4, MPI_CL_MEM, &a.request));
    REFUSED(MPI_File_iread_at(file, 0, a.out, 4, MPI_CL_MEM, &a.request));
    REFUSED(MPI_File_iwrite_at(file, 0, a.in, 4, MPI_CL_MEM, &a.request));
    REFUSED(MPI_File_iread_at_all(file, 0, a.out, 4, MPI_CL_MEM, &a.request));
    REFUSED(MPI_File_iwrite_at_all(file, 0, a.in, 4, MPI_CL_MEM, &a.request));
    MPI_OK(MPI_File_close(&file));
}

MPI_CASE("MPI_CL_MEM can't be packed, used in other datatypes, committed or freed", 1) {
    const errors_counted counted(mpi.comm);
    collective_arguments a;
    int position = 0;
    MPI_Aint far_position = 0;
    REFUSED(MPI_Pack(a.in, 4, MPI_CL_MEM, a.out, 8, &position, mpi.comm));
    REFUSED(MPI_Unpack(a.in, 8, &position, a.out, 4, MPI_CL_MEM, mpi.comm));
    REFUSED(MPI_Pack_external("external32", a.in, 4, MPI_CL_MEM, a.out, 8, &far_position));
    REFUSED(MPI_Unpack_external("external32", a.in, 8, &far_position, a.out, 4, MPI_CL_MEM));
    const int size = 2;
    const int start = 0;
    const int distribution = MPI_DISTRIBUTE_BLOCK;
    const int chosen = MPI_DISTRIBUTE_DFLT_DARG;
    const MPI_Datatype types[] = {MPI_INT, MPI_CL_MEM};
    const int lengths[] = {1, 1};
    const MPI_Aint places[] = {0, 4};
    MPI_Datatype made = MPI_DATATYPE_NULL;
    REFUSED(MPI_Type_contiguous(3, MPI_CL_MEM, &made));
    REFUSED(MPI_Type_vector(2, 1, 3, MPI_CL_MEM, &made));
    REFUSED(MPI_Type_create_hvector(2, 1, 3, MPI_CL_MEM, &made));
    REFUSED(MPI_Type_indexed(1, &size, &start, MPI_CL_MEM, &made));
    REFUSED(MPI_Type_create_hindexed(2, lengths, places, MPI_CL_MEM, &made));
    REFUSED(MPI_Type_create_indexed_block(1, 1, &start, MPI_CL_MEM, &made));
    REFUSED(MPI_Type_create_hindexed_block(2, 1, places, MPI_CL_MEM, &made));
    REFUSED(MPI_Type_create_struct(2, lengths, places, types, &made));
    const int part = 1;
    REFUSED(MPI_Type_create_subarray(1, &size, &part, &start, MPI_ORDER_C, MPI_CL_MEM, &made));
    REFUSED(MPI_Type_create_darray(1, 0, 1, &size, &distribution, &chosen, &part, MPI_ORDER_C,
                                   MPI_CL_MEM, &made));
    REFUSED(MPI_Type_create_resized(MPI_CL_MEM, 0, 8, &made));
    REFUSED(MPI_Type_dup(MPI_CL_MEM, &made));
    MPI_Datatype copy = MPI_CL_MEM;
    REFUSED(MPI_Type_commit(&copy));
    REFUSED(MPI_Type_free(&copy));
    CHECK(made == MPI_DATATYPE_NULL);
    // The datatype is unchanged.
    CHECK(copy == MPI_CL_MEM);
    MPI_OK(MPI_Type_size(MPI_CL_MEM, &position));
    CHECK(position == 1);
}

MPI_CASE("MPI_DATATYPE_NULL is not mistaken for MPI_CL_MEM where a datatype is ignored", 1) {
    int sum = mpi.rank;
    std::vector<int> all(static_cast<std::size_t>(mpi.size), 1);
    all[static_cast<std::size_t>(mpi.rank)] = 2;
    MPI_OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), 1, MPI_INT, mpi.comm));
    MPI_OK(MPI_Gather(&sum, 1, MPI_INT, mpi.rank == 0 ? all.data() : nullptr, 1,
                      mpi.rank == 0 ? MPI_INT : MPI_DATATYPE_NULL, 0, mpi.comm));
}

/// Argument errors of the MPI calls with MPI_CL_MEM: one case for each, of every call that can make it.

#include <array>
#include <string>

#include "transfers.hpp"

using namespace cldist_test;

namespace {

int class_of(int code) {
    int error_class = -1;
    MPI_Error_class(code, &error_class);
    return error_class;
}

enum class call { send, ssend, isend, issend, recv, irecv, sendrecv_send, sendrecv_recv };
constexpr std::array calls{call::send, call::ssend, call::isend,         call::issend,
                           call::recv, call::irecv, call::sendrecv_send, call::sendrecv_recv};

bool sends(call which) { return which <= call::issend || which == call::sendrecv_send; }

/// All of them are good at first.
struct arguments {
    void *data;
    int count = 8;
    int peer = 0;
    int tag = 7;
    MPI_Comm comm;
};

int issue(call which, const arguments &a) {
    static unsigned char other[8];
    MPI_Request request = MPI_REQUEST_NULL;
    switch (which) {
        case call::send: return MPI_Send(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, a.comm);
        case call::ssend: return MPI_Ssend(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, a.comm);
        case call::isend: return MPI_Isend(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, a.comm, &request);
        case call::issend: return MPI_Issend(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, a.comm, &request);
        case call::recv: return MPI_Recv(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, a.comm, MPI_STATUS_IGNORE);
        case call::irecv: return MPI_Irecv(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, a.comm, &request);
        case call::sendrecv_send:
            return MPI_Sendrecv(a.data, a.count, MPI_CL_MEM, a.peer, a.tag, other, 8, MPI_CL_MEM, 0, 7, a.comm,
                                MPI_STATUS_IGNORE);
        case call::sendrecv_recv:
            return MPI_Sendrecv(other, 8, MPI_CL_MEM, 0, 7, a.data, a.count, MPI_CL_MEM, a.peer, a.tag, a.comm,
                                MPI_STATUS_IGNORE);
    }
    return MPI_SUCCESS;
}

/// Every call that `concerns` fails with `error_class`, and sends nothing.
template <typename Change, typename Concerns>
void expect_error(const mpi_view &mpi, int error_class, Change &&change, Concerns &&concerns) {
    MPI_Errhandler before = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(mpi.comm, MPI_ERRORS_RETURN);
    unsigned char data[8] = {};
    for (const call which : calls) {
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

bool any(call) { return true; }

}  // namespace

MPI_CASE("with MPI_CL_MEM, a negative count is an MPI_ERR_COUNT", 1) {
    expect_error(
        mpi, MPI_ERR_COUNT, [](arguments &a) { a.count = -1; }, any);
}
MPI_CASE("with MPI_CL_MEM, no buffer for bytes is an MPI_ERR_BUFFER", 1) {
    expect_error(
        mpi, MPI_ERR_BUFFER, [](arguments &a) { a.data = nullptr; }, any);
}
MPI_CASE("with MPI_CL_MEM, a rank outside of the communicator is an MPI_ERR_RANK", 1) {
    expect_error(
        mpi, MPI_ERR_RANK, [&](arguments &a) { a.peer = mpi.size; }, any);
    expect_error(
        mpi, MPI_ERR_RANK, [](arguments &a) { a.peer = -77; }, any);
    expect_error(
        mpi, MPI_ERR_RANK, [](arguments &a) { a.peer = MPI_ANY_SOURCE; }, sends);
}
MPI_CASE("with MPI_CL_MEM, a tag out of range is an MPI_ERR_TAG", 1) {
    expect_error(
        mpi, MPI_ERR_TAG, [](arguments &a) { a.tag = -77; }, any);
    expect_error(
        mpi, MPI_ERR_TAG, [](arguments &a) { a.tag = MPI_ANY_TAG; }, sends);
}
MPI_CASE("with MPI_CL_MEM, MPI_COMM_NULL is an MPI_ERR_COMM", 1) {
    expect_error(
        mpi, MPI_ERR_COMM, [](arguments &a) { a.comm = MPI_COMM_NULL; }, any);
}

MPI_CASE("calls that know nothing of MPI_CL_MEM refuse it", 1) {
    MPI_Errhandler before = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(mpi.comm, MPI_ERRORS_RETURN);
    unsigned char data[8] = {};
    unsigned char packed[8] = {};
    int position = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(class_of(MPI_Bsend(data, 8, MPI_CL_MEM, mpi.rank, 1, mpi.comm)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Rsend(data, 8, MPI_CL_MEM, mpi.rank, 1, mpi.comm)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Send_init(data, 8, MPI_CL_MEM, mpi.rank, 1, mpi.comm, &request)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Recv_init(data, 8, MPI_CL_MEM, mpi.rank, 1, mpi.comm, &request)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Sendrecv_replace(data, 8, MPI_CL_MEM, mpi.rank, 1, mpi.rank, 1, mpi.comm, MPI_STATUS_IGNORE)) ==
          MPI_ERR_TYPE);
    CHECK(class_of(MPI_Bcast(data, 8, MPI_CL_MEM, 0, mpi.comm)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Pack(data, 8, MPI_CL_MEM, packed, 8, &position, mpi.comm)) == MPI_ERR_TYPE);
    MPI_Comm_set_errhandler(mpi.comm, before);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
    MPI_Errhandler_free(&before);
}

// Queries the system and uses files. Under `cldist run`, each line that the program prints must be
// the same in all processes. The program does not depend on cldist.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cwchar>
#include <fstream>
#include <future>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

extern "C" unsigned seed_of_library();

namespace {

std::string folder;  // for output files

// Prints a line with one system call, because other processes print, too.
void print(const std::string &line) {
    const std::string whole = line + "\n";
    if (write(STDOUT_FILENO, whole.data(), whole.size()) < 0) std::abort();
}

// A line of output. Construct it with braces, which evaluate the arguments in order.
struct Text {
    template <typename... Parts>
    explicit Text(Parts... parts) {
        std::ostringstream out;
        ((out << parts << ' '), ...);
        line = out.str();
    }
    std::string line;
};
void print(const Text &text) { print(text.line); }

std::string contents(const std::string &path) {
    std::ifstream in(path);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
}

// Whether libstdc++ is linked statically. Its std::random_device then uses an instruction of the
// processor, which can't be intercepted.
bool has_own_random_device() {
    void *const library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) dlclose(library);
    return library == nullptr;
}

// Reads a pipe by the descriptor of a former random source.
void replace_descriptor(int file) {
    std::array<int, 2> ends{};
    char byte = 0;
    if (pipe(ends.data()) != 0 || dup3(ends[0], file, O_CLOEXEC) != file ||
        write(ends[1], "x", 1) != 1 || read(file, &byte, 1) != 1 || byte != 'x')
        std::_Exit(9);
    for (const int descriptor : {file, ends[0], ends[1]}) close(descriptor);
}

void draw() {
    std::array<unsigned, 4> numbers{};
    print(Text{"getrandom", getrandom(numbers.data(), sizeof numbers, 0), numbers[0], numbers[3]});
    print(Text{"getentropy", getentropy(numbers.data(), sizeof numbers), numbers[1]});
    if (std::random_device device; !has_own_random_device())
        print(Text{"random_device", device(), device()});
    std::srand(static_cast<unsigned>(time(nullptr)) ^ static_cast<unsigned>(getpid()));
    print(Text{"rand", std::rand()});
    for (const char *source : {"/dev/urandom", "/dev/random"}) {
        unsigned number = 0;
        const int file = open(source, O_RDONLY);
        print(Text{source, read(file, &number, sizeof number), number});
        close(file);
        std::FILE *stream = std::fopen(source, "r");
        print(Text{"stream", std::fread(&number, 1, sizeof number, stream), number});
        std::fclose(stream);
        std::ifstream in(source, std::ios::binary);
        in.read(reinterpret_cast<char *>(&number), sizeof number);
        print(Text{"fstream", in.gcount(), number});
        replace_descriptor(open(source, O_RDONLY));
    }
}

void clocks() {
    timespec now{};
    for (int i = 0; i < 1000; ++i) clock_gettime(CLOCK_MONOTONIC, &now);
    print(Text{"clock_gettime", now.tv_sec, now.tv_nsec});
    print(Text{"time", time(nullptr), "clock", clock()});
    print(Text{"chrono", std::chrono::system_clock::now().time_since_epoch().count(),
               std::chrono::steady_clock::now().time_since_epoch().count()});
    // A loop that ends by the clock must run equally often in all processes.
    int rounds = 0;
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
         std::chrono::steady_clock::now() < end;)
        ++rounds;
    print(Text{"rounds", rounds});
}

void identity() {
    utsname system{};
    std::array<char, 256> host{};
    uname(&system);
    gethostname(host.data(), host.size());
    print(
        Text{"identity", getpid(), getppid(), host.data(), system.nodename, isatty(1), isatty(2)});
    std::fprintf(stderr, "to standard error\n");
}

void files() {
    const std::string path = folder + "/file";
    {
        std::ofstream out(path);
        out << "by " << getpid() << " at " << time(nullptr) << "\n";
    }
    print(Text{"written", contents(path)});
    std::FILE *stream = std::fopen(path.c_str(), "a+");
    std::fprintf(stream, "appended %d\n", 42);
    std::fflush(stream);
    struct stat state {};
    fstat(fileno(stream), &state);
    print(Text{"appended", state.st_size});
    std::fclose(stream);
    print(Text{"read again", contents(path)});
    stream = std::fopen(path.c_str(), "a");
    print(Text{"append at", std::ftell(stream)});
    stream = std::freopen((folder + "/reopened").c_str(), "w", stream);
    std::fputs("reopened\n", stream);
    stream = std::freopen((folder + "/reopened").c_str(), "r", stream);
    std::array<char, 16> line{};
    print(Text{"reopened", std::fgets(line.data(), line.size(), stream) != nullptr, line.data()});
    std::fclose(stream);
    print(
        Text{"error to a file", std::freopen((folder + "/errors").c_str(), "w", stderr) == stderr});
    std::fputs("an error\n", stderr);
    std::fflush(stderr);
    print(Text{"errors", contents(folder + "/errors")});
    // glibc accepts other letters before the '+'.
    stream = std::fopen((folder + "/both").c_str(), "wt+");
    std::fputs("both ways\n", stream);
    std::rewind(stream);
    print(Text{"both", std::fgets(line.data(), line.size(), stream) != nullptr, line.data()});
    std::fclose(stream);
    for (const char *const made : {"/reopened", "/errors", "/both"})
        std::remove((folder + made).c_str());
    // Increments a counter in a file. Other processes could read it before or after.
    for (int i = 0; i < 20; ++i) {
        int count = 0;
        std::ifstream(folder + "/count") >> count;
        std::ofstream(folder + "/count") << count + 1;
    }
    print(Text{"counted", contents(folder + "/count")});
    stat((folder + "/count").c_str(), &state);
    print(Text{"state", state.st_size, state.st_mtim.tv_nsec, state.st_ino});
    print(Text{"rename", std::rename(path.c_str(), (folder + "/renamed").c_str()),
               access(path.c_str(), F_OK), contents(folder + "/renamed")});
    print(Text{"no such file", open((folder + "/none/such").c_str(), O_RDONLY), errno});
    print(Text{"remove", std::remove((folder + "/renamed").c_str()),
               std::remove((folder + "/renamed").c_str()), errno});
}

void paths() {
    const std::string inner = folder + "/outer/inner";
    const std::string link = folder + "/link";
    mkdir((folder + "/outer").c_str(), 0700);
    mkdir(inner.c_str(), 0700);
    (void)!symlink(inner.c_str(), link.c_str());
    std::ofstream(link + "/../file") << "in outer";
    print(Text{"link/..", contents(folder + "/outer/file"), contents(link + "/../file"),
               access((folder + "/file").c_str(), F_OK), remove((link + "/../file").c_str())});
    print(Text{"none/..", open((folder + "/none/../link").c_str(), O_RDONLY), errno});
    print(Text{"a file as a folder", open((folder + "/new/").c_str(), O_RDWR | O_CREAT, 0600)});
    print(Text{"empty path", open("", O_RDONLY), errno, open("", O_RDWR | O_CREAT, 0600), errno,
               std::fopen("", "r") == nullptr, errno, std::fopen("", "w") == nullptr, errno});
    print(Text{"removed", unlink(link.c_str()), rmdir(inner.c_str()),
               rmdir((folder + "/outer").c_str())});
}

// A function that programs get from old C libraries or by _FORTIFY_SOURCE, or at whose use the
// linker warns.
template <typename Function>
Function *found(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

void names() {
    std::string name = folder + "/name-XXXXXX";
    print(Text{"mktemp", found<char *(char *)>("mktemp")(name.data()), name});
    std::array<char, L_tmpnam> other{};
    print(Text{"tmpnam", found<char *(char *)>("tmpnam")(other.data()), other.data()});
    char *const own = found<char *(const char *, const char *)>("tempnam")(folder.c_str(), "own");
    print(Text{"tempnam", own});
    std::free(own);
    std::ofstream(name) << "named";
    struct stat state {};
    print(Text{"__xstat",
               found<int(int, const char *, struct stat *)>("__xstat")(1, name.c_str(), &state),
               state.st_size, state.st_mtim.tv_nsec});
    struct statx more {};
    print(Text{"statx", statx(AT_FDCWD, name.c_str(), 0, STATX_BASIC_STATS, &more), more.stx_size,
               more.stx_mtime.tv_nsec});
    const int here = open(folder.c_str(), O_RDONLY | O_DIRECTORY);
    // Only rank 0 may truncate the file.
    const int file = found<int(int, const char *, int)>("__openat_2")(
        here, name.c_str() + folder.size() + 1, O_RDWR | O_TRUNC);
    print(Text{"__openat_2", write(file, "opened", 6), contents(name)});
    close(file);
    // In all ranks, the first call succeeds and the second finds a folder, link or pipe.
    for (int i = 0; i < 2; ++i)
        print(Text{"made", mkdirat(here, "made", 0700), symlinkat("made", here, "linked"),
                   linkat(here, "linked", here, "again", 0),
                   mkfifo((folder + "/pipe").c_str(), 0600), mkfifoat(here, "pipe2", 0600)});
    for (const char *const made : {"linked", "again", "pipe", "pipe2"}) unlinkat(here, made, 0);
    close(here);
    print(Text{"removed", remove((folder + "/made").c_str()), remove(name.c_str())});
}

void printing() {
    const std::string path = folder + "/printed";
    const int file = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
    print(Text{"dprintf", dprintf(file, "number %d\n", 7), contents(path)});
    close(file);
    std::FILE *const stream = std::fopen(path.c_str(), "w+");
    print(Text{"wide", std::fwprintf(stream, L"wide %d\n", 8), std::fputwc(L'x', stream) == L'x',
               std::fputws(L"y\n", stream) >= 0});
    std::rewind(stream);
    std::array<wchar_t, 16> line{};
    print(Text{"wide line", std::fgetws(line.data(), line.size(), stream) != nullptr,
               std::wcslen(line.data()), std::fgetwc(stream) == L'x'});
    std::fclose(stream);
    print(Text{"printed", contents(path), remove(path.c_str())});
    dprintf(STDERR_FILENO, "dprintf to standard error\n");
    std::wcerr << L"wcerr to standard error" << std::endl;
}

void places() {
    const std::string lock = folder + "/lock";
    const int file = open(lock.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    print(Text{"made", file >= 0, open(lock.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600), errno});
    struct flock all {};
    all.l_type = F_WRLCK;
    print(Text{"locked", flock(file, LOCK_EX | LOCK_NB), fcntl(file, F_SETLK, &all)});
    std::string name = folder + "/temporary-XXXXXX";
    const int temporary = mkstemp(name.data());
    print(Text{"mkstemp", temporary >= 0, name, write(temporary, "abc", 3), contents(name)});
    std::string place = folder + "/folder-XXXXXX";
    print(Text{"mkdtemp", mkdtemp(place.data()) != nullptr, place});
    close(temporary);
    close(file);
    print(Text{"gone", unlink(name.c_str()), unlink(lock.c_str()), rmdir(place.c_str())});
}

void children() {
    std::FILE *child = popen("echo $$", "r");
    std::array<char, 64> line{};
    print(Text{"popen", std::fgets(line.data(), line.size(), child) != nullptr, line.data()});
    print(Text{"pclose", pclose(child)});
    print(Text{"system", system(("echo x >>" + folder + "/by-children; exit 3").c_str()),
               contents(folder + "/by-children")});
    const pid_t forked = fork();
    if (forked == 0) {
        const bool own = getpid() != getppid();
        _exit(own ? 5 : 6);
    }
    int status = 0;
    waitpid(forked, &status, 0);
    print(Text{"forked", WEXITSTATUS(status)});
}

void threads() {
    std::vector<std::thread> all;
    std::vector<std::string> lines(8);
    for (std::size_t i = 0; i < lines.size(); ++i)
        all.emplace_back([i, &lines] {
            unsigned number = 0;
            timespec now{};
            for (std::size_t k = 0; k < 200 * (i + 1); ++k) {
                (void)!getrandom(&number, sizeof number, 0);
                clock_gettime(CLOCK_REALTIME, &now);
            }
            const std::string path = folder + "/thread" + std::to_string(i);
            std::ofstream(path) << number;
            lines[i] = Text{"thread", i, number, now.tv_sec > 0, contents(path)}.line;
            // The destructor runs at the very end of the thread.
            thread_local struct AtEnd {
                std::string path;
                ~AtEnd() { std::ofstream(path, std::ios::app) << "end"; }
            } at_end;
            at_end.path = path;
        });
    for (std::thread &thread : all) thread.join();
    for (const std::string &line : lines) print(line);
    for (std::size_t i = 0; i < lines.size(); ++i)
        print(Text{"ended", contents(folder + "/thread" + std::to_string(i))});
}

bool is_first_rank() {
    for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
        if (const char *const rank = std::getenv(name); rank != nullptr) return *rank == '0';
    return true;
}

// Threads share tasks: in each process a different thread may execute a task.
void pool() {
    constexpr std::size_t tasks = 24;
    std::vector<std::string> lines(tasks);
    std::atomic<std::size_t> next = 0;
    std::vector<std::thread> all;
    for (unsigned i = 0; i < 3; ++i)
        all.emplace_back([&, i] {
            for (std::size_t task = 0; (task = next++) < tasks;) {
                usleep((is_first_rank() ? i : 2 - i) * 300);
                const std::string path = folder + "/task" + std::to_string(task);
                std::ofstream(path) << task;
                struct stat state {};
                lines[task] = Text{"task",
                                   task,
                                   stat(path.c_str(), &state),
                                   state.st_mtim.tv_nsec,
                                   contents(path),
                                   std::remove(path.c_str()),
                                   access(path.c_str(), F_OK)}
                                  .line;
            }
        });
    for (std::thread &thread : all) thread.join();
    for (const std::string &line : lines) print(line);
}

// The main thread polls the clock until another thread stops it, at different times per process.
void polling() {
    for (int round = 0; round < 10; ++round) {
        std::atomic<bool> stop = false;
        std::thread other([&] {
            usleep(is_first_rank() == (round % 2 == 0) ? 10'000 : 1'000);
            stop = true;
        });
        timespec now{};
        timespec before{};
        while (!stop) {
            clock_gettime(CLOCK_MONOTONIC, &now);
            if (now.tv_sec < before.tv_sec ||
                (now.tv_sec == before.tv_sec && now.tv_nsec < before.tv_nsec))
                print("backwards");
            before = now;
        }
        other.join();
        const int there = access(folder.c_str(), F_OK);
        timespec then{};
        clock_gettime(CLOCK_REALTIME, &then);
        print(Text{"polled", there, then.tv_sec, then.tv_nsec, time(nullptr)});
    }
}

void loaded() { print(Text{"seed", seed_of_library()}); }

void futures() {
    std::promise<int> never;
    std::future<int> future = never.get_future();
    const auto soon = std::chrono::milliseconds(1);
    const bool late = future.wait_for(soon) == std::future_status::timeout;
    print(Text{
        "future", late,
        future.wait_until(std::chrono::steady_clock::now() + soon) == std::future_status::timeout,
        future.wait_until(std::chrono::system_clock::now() + soon) == std::future_status::timeout});
}

// A thread reads the clock an unpredictable number of times, least often in rank 0.
void chance() {
    for (int round = 0; round < 5; ++round) {
        std::atomic<bool> stop = false;
        std::thread reader([&] {
            timespec now{};
            while (!stop) clock_gettime(CLOCK_MONOTONIC, &now);
            unsigned number = 0;
            (void)!getrandom(&number, sizeof number, 0);
            std::ofstream(folder + "/reader") << number;
        });
        usleep(is_first_rank() ? 2'000 : 20'000);
        stop = true;
        reader.join();
        print(Text{"reader", contents(folder + "/reader")});
    }
}

std::atomic<long> asked_by_handler = 0;

// A signal handler's queries are answered without the other processes, which may get the signal at
// another time or not at all.
void signals() {
    struct sigaction action {};
    action.sa_handler = [](int) { asked_by_handler = asked_by_handler + (getpid() != 0 ? 1 : 0); };
    sigaction(SIGUSR1, &action, nullptr);
    print(Text{"kill", kill(getpid(), SIGUSR1), asked_by_handler.load()});
}

void full_disk() {
    // A link to a device that is always full.
    const std::string path = folder + "/full";
    print(Text{"symlink", symlink("/dev/full", path.c_str())});
    const int file = open(path.c_str(), O_WRONLY);
    print(Text{"write", write(file, "x", 1), errno});
    print(Text{"full dprintf", dprintf(file, "x"), errno});
    close(file);
    std::FILE *stream = std::fopen(path.c_str(), "w");
    std::fprintf(stream, "x");
    print(Text{"fflush", std::fflush(stream), errno, std::ferror(stream) != 0});
    std::fclose(stream);
    std::ofstream out(path);
    out << "x" << std::flush;
    print(Text{"fstream", out.good()});
}

}  // namespace

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    folder = argv[1];
    const std::vector<std::pair<std::string, void (*)()>> parts{
        {"random", draw},       {"time", clocks},       {"identity", identity},
        {"files", files},       {"places", places},     {"paths", paths},
        {"names", names},       {"printing", printing}, {"futures", futures},
        {"children", children}, {"threads", threads},   {"signals", signals},
        {"chance", chance},     {"full", full_disk},    {"pool", pool},
        {"polling", polling},   {"loaded", loaded}};
    for (int i = 2; i < argc; ++i)
        for (const auto &[name, part] : parts)
            if (name == argv[i]) part();
    print("end");
}

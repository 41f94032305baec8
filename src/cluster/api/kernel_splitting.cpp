#include "cluster/api/kernel_splitting.hpp"

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "cluster/split/conditionals.hpp"
#include "ocl/query.hpp"
#include "splitting/build_options.hpp"
#include "splitting/description.hpp"
#include "splitting/library.hpp"

namespace cldist::cluster {
namespace {

/// Returns why parts of the kernel's launches cannot run, whatever their accesses; empty if they
/// can.
std::string why_no_parts(const ProgramObject &program, const KernelInfo &info) {
    if (program.context->devices.size() == 1) return "there is one device";
    if (program.facts == nullptr)
        return "its program was not built from source with clBuildProgram";
    if (program.facts->asks_for_launch && !info.gets_launch) {
        std::string why =
            "the program queries group numbers or the launch's sizes, and cannot be adapted: ";
        if (!program.facts->is_balanced)
            return why +
                   "with the first branch of each conditional, its braces are not balanced, so "
                   "cldist cannot find the functions";
        why += "a macro may define the kernel, or a function that makes or answers such a query";
        return program.facts->why_not_adapted.empty()
                   ? why
                   : why + " (the compiler: " + program.facts->why_not_adapted + ")";
    }
    return {};
}

/// Returns why such parts cannot run even with access functions; empty if they can.
std::string why_not_by_functions(const SourceFacts &facts, const std::string &kernel) {
    const auto found = facts.kernels.find(kernel);
    return found != facts.kernels.end()
               ? found->second
               : "cldist does not find the kernel in the program's source; a macro may define it";
}

/// The report of a device's compiler about a program's preprocessing, or why there is none.
struct Said {
    bool known = false;
    std::uint64_t source = 0;  ///< hash of the source
    std::string report;        ///< or why there is none
};

/// Builds and runs conditionals.program() on a native device of `space`, and returns its report.
/// `options` are those of clBuildProgram. The result is empty if the report is too long. Throws an
/// Error. Waits for the device.
std::string report_of_compiler(const Space &space, cl_device_id device,
                               const Conditionals &conditionals, const std::string &options) {
    const cl_context context = space.context.get();
    const std::string source = conditionals.program();
    const char *text = source.c_str();
    const Program program =
        create("clCreateProgramWithSource", clCreateProgramWithSource, context, 1U, &text, nullptr);
    check(clBuildProgram(program.get(), 1, &device, options.c_str(), nullptr, nullptr),
          "clBuildProgram");
    const Kernel kernel =
        create("clCreateKernel", clCreateKernel, program.get(), Conditionals::kernel_name);
    std::string report(conditionals.report_size(), '\1');
    const Mem memory =
        create("clCreateBuffer", clCreateBuffer, context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
               report.size(), report.data());
    check(set_arguments(kernel.get(), memory.get(), static_cast<cl_uint>(report.size())),
          "clSetKernelArg");
    const Queue queue = create("clCreateCommandQueue", clCreateCommandQueue, context, device, 0U);
    const std::size_t one = 1;
    check(clEnqueueNDRangeKernel(queue.get(), kernel.get(), 1, nullptr, &one, &one, 0, nullptr,
                                 nullptr),
          "clEnqueueNDRangeKernel");
    check(clEnqueueReadBuffer(queue.get(), memory.get(), CL_TRUE, 0, report.size(), report.data(),
                              0, nullptr, nullptr),
          "clEnqueueReadBuffer");
    return report.substr(0, report.find('\0') + 1);
}

/// Packs the reports of the process's devices that answer for other devices.
Blob pack_reports(const ProgramObject &program, Process process) {
    const SourceFacts &facts = *program.facts;
    Packer packer;
    for (std::size_t i = 0; i < program.devices.size(); ++i) {
        const DeviceObject &device = *program.devices[i];
        if (program.alike()[i] != i || device.process != process) continue;
        Said said{true, hash_of(facts.source), std::string(1, '\0')};
        try {
            const Conditionals conditionals(facts.source, facts.options);
            if (!conditionals.empty())
                said.report = report_of_compiler(*program.context->space(device.answering_memory),
                                                 device.answering, conditionals, facts.options);
        } catch (const Error &error) {
            said = {false, said.source,
                    "cldist cannot determine how the device's compiler preprocesses the program: " +
                        error.status().message};
        } catch (const std::exception &error) {
            said = {false, said.source, error.what()};
        }
        packer.put(said.known).put(said.source).put_text(said.report);
    }
    return packer.take();
}

std::vector<Said> reports_of(const Exchange &exchange, const ProgramObject &program) {
    std::vector<Said> all;
    const auto say = [&](Process process) { return pack_reports(program, process); };
    for (const Blob &blob : exchange.of(program.answerers(), say))
        for (Unpacker unpacker(blob); !unpacker.empty();) {
            Said said;
            said.known = unpacker.get<bool>();
            said.source = unpacker.get<std::uint64_t>();
            said.report = unpacker.get_text();
            all.push_back(std::move(said));
        }
    return all;
}

/// Derives the accesses from the source as the devices' compilers preprocess it. May throw.
splitting::Descriptions derived_as_compiled(const std::string &source, std::string options,
                                            const std::vector<Said> &compilers) {
    const Conditionals conditionals(source, options);
    const std::string &report = compilers.at(0).report;
    for (const Said &said : compilers) {
        if (!said.known) throw std::runtime_error(said.report);
        if (said.source != hash_of(source))
            throw std::runtime_error(
                "the files that the program includes differ between processes");
        if (const std::string what = conditionals.difference(report, said.report); !what.empty())
            throw std::runtime_error("the devices' compilers differ in " + what);
    }
    // Without -cl-std, each compiler chooses its default version.
    if (const unsigned version = conditionals.language_version(report);
        version >= 100 && !splitting::chooses_language(options))
        options +=
            " -cl-std=CL" + std::to_string(version / 100) + "." + std::to_string(version / 10 % 10);
    return splitting::derive(conditionals.decided(report), options);
}

/// Returns the accesses of all kernels of the program. Rank 0 derives them, because other processes
/// may lack the analysis or its compiler.
const splitting::Descriptions &derived_of(const Exchange &exchange, const ProgramObject &program) {
    SourceFacts &facts = *program.facts;
    if (facts.derived) return *facts.derived;
    const std::vector<Said> compilers = reports_of(exchange, program);
    Packer mine;
    if (World::get().agreement().speaks_for(0)) {
        try {
            mine.put(true).put_text(
                text_of(derived_as_compiled(facts.source, facts.options, compilers)));
        } catch (const std::exception &error) {
            mine = Packer();
            mine.put(false).put_text(error.what());
        }
    }
    const Blob told = exchange.from(0, mine.take());
    Unpacker unpacker(told);
    const bool derived = unpacker.get<bool>();
    const std::string text = unpacker.get_text();
    if (!derived) facts.why_not_derived = text;
    facts.derived = derived ? splitting::parse_descriptions(text) : splitting::Descriptions();
    return *facts.derived;
}

}  // namespace

bool agree_on_accesses(const Exchange &exchange, const ProgramObject &program) {
    derived_of(exchange, program);
    return program.facts->why_not_derived.empty();
}

std::shared_ptr<Splitting> agree_on_splitting(const Exchange &exchange,
                                              const ProgramObject &program,
                                              const KernelInfo &info) {
    if (!program.context->aggregate) return nullptr;
    if (const auto known = program.answers.splittings.find(info.name);
        known != program.answers.splittings.end())
        return known->second;
    const bool speaks = World::get().self() == 0 && program.context->devices.size() > 1;
    std::string why = why_no_parts(program, info);
    std::shared_ptr<const splitting::AccessModel> model;
    if (why.empty()) {
        model = find_functions(info.name);
        // A process without the functions would decide differently.
        if (exchange.least(model != nullptr ? 1 : 0) == 0) model = nullptr;
        if (model != nullptr) {
            why = why_not_by_functions(*program.facts, info.name);
        } else {
            const splitting::Descriptions &derived = derived_of(exchange, program);
            const auto found = derived.find(info.name);
            if (found != derived.end()) {
                model = splitting::model_from_description(found->second);
                if (speaks && config().explain == Switch::on)
                    std::fputs(readable(found->second).c_str(), stderr);
            } else {
                why = "its accesses are unknown";
                if (!program.facts->why_not_derived.empty())
                    why += ": " + program.facts->why_not_derived;
                why += "; write access functions for it (clSetKernelAccessFunctions)";
            }
        }
    }
    const bool asks_for_groups = program.facts == nullptr ||
                                 !program.facts->asks_for_groups.contains(info.name) ||
                                 program.facts->asks_for_groups.at(info.name);
    const World::Shares &shares = World::get().shares();
    std::shared_ptr<Adaptation> &adaptation = program.context->adaptation;
    if (shares.adapts && adaptation == nullptr)
        adaptation = std::make_shared<Adaptation>(shares.first);
    auto splitting = std::make_shared<Splitting>(info.name, std::move(model), std::move(why),
                                                 asks_for_groups, speaks, shares.first, adaptation);
    program.answers.splittings[info.name] = splitting;
    return splitting;
}

std::shared_ptr<Splitting> splitting_by_functions(
    const KernelObject &kernel, std::shared_ptr<const splitting::AccessModel> model) {
    std::string why = why_no_parts(*kernel.program, *kernel.info);
    if (why.empty()) why = why_not_by_functions(*kernel.program->facts, kernel.info->name);
    return kernel.splitting->with_model(std::move(model), std::move(why));
}

}  // namespace cldist::cluster

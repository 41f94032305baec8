#!/usr/bin/env python3
"""Writes the Fortran module `cldist` from the C headers.

Usage: fortran_module.py OUTPUT c_intptr_t|c_int HEADER...

The second argument is the kind of an integer that holds an MPI handle of C: a pointer in Open MPI, an int in MPICH, where only
MPI_File is a pointer. Each C function becomes a function of the module with the same name and arguments. A function with MPI
handles becomes a generic function of two: one takes the handles of mpi_f08, the other the integers of mpi. C strings that a
function returns become Fortran strings. Pointers that may be NULL are optional arguments.
"""

import pathlib
import re
import sys

HANDLES = {"MPI_Comm": "comm", "MPI_Datatype": "type", "MPI_Op": "op", "MPI_File": "file", "MPI_Request": "request"}
VALUES = {"cl_bool": "integer(c_int)", "cl_int": "integer(c_int)", "cl_uint": "integer(c_int)", "int": "integer(c_int)",
          "cl_transfer_info": "integer(c_int)", "size_t": "integer(c_size_t)", "off_t": "integer(c_int64_t)",
          "cl_device_type": "integer(c_int64_t)", "cl_mem_flags": "integer(c_int64_t)", "MPI_Offset": "integer(c_int64_t)",
          "cl_command_queue": "integer(c_intptr_t)", "cl_mem": "integer(c_intptr_t)", "cl_event": "integer(c_intptr_t)",
          "cl_context": "integer(c_intptr_t)", "cl_device_id": "integer(c_intptr_t)",
          "cl_platform_id": "integer(c_intptr_t)"}
# What a caller may omit: C's NULL.
OPTIONAL = {"event_wait_list", "event", "errcode_ret", "param_value_size_ret", "recv_counts", "recv_displacements",
            "send_counts", "send_displacements"}

HEAD = """! The interface of cldist for Fortran, made from CL/cl_ext_dist.h and CL/cl_ext_file.h. The functions and their arguments
! are those of the C headers. docs/howto/fortran.md explains the differences.
module cldist
    use, intrinsic :: iso_c_binding
    use mpi_f08, only: {handles}
    implicit none
    private
"""

HELPERS = """    function text_of(place) result(text)
        type(c_ptr), intent(in) :: place
        character(:), allocatable :: text
        character(kind=c_char), pointer :: characters(:)
        integer :: length
        call c_f_pointer(place, characters, [huge(length)])
        length = 0
        do while (characters(length + 1) /= c_null_char)
            length = length + 1
        end do
        allocate(character(length) :: text)
        text = transfer(characters(1:length), text)
    end function
    function MPI_CL_MEM() result(datatype)
        type(MPI_Datatype) :: datatype
        datatype%mpi_val = cl_mem_to_fortran()
    end function
"""


def kind_of(handle):
    return "c_intptr_t" if handle == "MPI_File" else "handle"


class Argument:
    def __init__(self, text):
        found = re.fullmatch(r"(const )?(\w+) ?(\*?) ?(\w+)(\[3\])?", text.strip())
        if not found:
            sys.exit(f"cannot read the argument {text!r}")
        constant, self.type, pointer, self.name, array = found.groups()
        self.handle = self.type in HANDLES
        self.pointer = bool(pointer)
        optional = ", optional" if self.name in OPTIONAL else ""
        if self.type in ("void", "FILE"):
            self.how, shape = "type(c_ptr), value", ""
        elif self.type == "char":
            self.how, shape = "character(kind=c_char), intent(in)", "(*)"
        elif self.handle:
            self.how, shape = f"integer({kind_of(self.type)}){', intent(inout)' if pointer else ', value'}", ""
        elif array or (constant and pointer):
            self.how, shape = f"{VALUES[self.type]}, intent(in){optional}", "(3)" if array else "(*)"
        elif pointer:
            self.how, shape = f"{VALUES[self.type]}, intent(out){optional}", ""
        else:
            self.how, shape = f"{VALUES[self.type]}, value", ""
        self.declared = f"{self.how} :: {self.name}{shape}"

    def for_users(self, kind):
        """The declaration in a function that takes the handles of mpi_f08 or mpi."""
        if not self.handle:
            return self.declared
        intent = "inout" if self.pointer else "in"
        return f"{'integer' if kind == 'mpi' else f'type({self.type})'}, intent({intent}) :: {self.name}"


def folded(text, indent):
    """The statement in lines of at most 100 columns."""
    lines, line = [], " " * indent
    for word in text.split(" "):
        if len(line) + len(word) > 98:
            lines.append(line + "&")
            line = " " * (indent + 4)
        line += word + " "
    return "\n".join([*lines, line.rstrip()]) + "\n"


def interface(name, result, arguments, c_name):
    text = folded(f"function {name}({', '.join(a.name for a in arguments)}) bind(c, name=\"{c_name}\") result(result_of_call)", 8)
    text += "            import\n"
    text += "".join(f"            {argument.declared}\n" for argument in arguments)
    return text + f"            {result} :: result_of_call\n        end function\n"


def procedure(name, kind, arguments, result):
    """Converts the handles and calls the C function."""
    passed, before, after, locals_ = [], "", "", ""
    for a in arguments:
        value = a.name if kind == "mpi" else f"{a.name}%mpi_val"
        if not a.handle:
            passed.append(a.name)
        elif a.pointer:
            locals_ += f"        integer({kind_of(a.type)}) :: c_{a.name}\n"
            before += f"        c_{a.name} = {HANDLES[a.type]}_from_fortran(int({value}, c_int))\n"
            passed.append(f"c_{a.name}")
            after += f"        {value} = {HANDLES[a.type]}_to_fortran(c_{a.name})\n"
        else:
            passed.append(f"{HANDLES[a.type]}_from_fortran(int({value}, c_int))")
    text = folded(f"function {name}_{kind}({', '.join(a.name for a in arguments)}) result(result_of_call)", 4)
    text += "".join(f"        {argument.for_users(kind)}\n" for argument in arguments)
    text += f"        {result} :: result_of_call\n{locals_}{before}"
    text += folded(f"result_of_call = c_{name}({', '.join(passed)})", 8)
    return text + after + "    end function\n"


def main():
    output, kind, *headers = sys.argv[1:]
    text = "".join(re.sub(r"/\*.*?\*/", "", pathlib.Path(header).read_text(encoding="utf-8"), flags=re.DOTALL)
                   for header in headers)
    constants = re.findall(r"^#define (CL\w+) (-?\w+) *$", text, re.MULTILINE)
    functions = re.findall(r"^(const char \*|cl_\w+ )(cl\w+)\(([^)]*)\);", text, re.MULTILINE)
    module = HEAD.format(handles=", ".join(HANDLES))
    module += f"    integer, parameter :: handle = {kind}\n    public :: MPI_CL_MEM\n"
    for name, value in constants:
        number = f"int(z'{value[2:]}', c_int)" if value.startswith("0x") else value
        module += f"    integer(c_int), parameter, public :: {name} = {number}\n"
    interfaces, generic, procedures = "", "", HELPERS
    for result, name, arguments in functions:
        arguments = [Argument(part) for part in arguments.split(",") if part.strip() != "void"]
        module += f"    public :: {name}\n"
        if result.startswith("const char"):
            interfaces += interface("c_" + name, "type(c_ptr)", arguments, name)
            names = ", ".join(a.name for a in arguments)
            procedures += f"    function {name}({names}) result(text)\n"
            procedures += "".join(f"        {a.declared}\n" for a in arguments)
            procedures += f"        character(:), allocatable :: text\n        text = text_of(c_{name}({names}))\n    end function\n"
        elif any(a.handle for a in arguments):
            interfaces += interface("c_" + name, VALUES[result.strip()], arguments, name)
            generic += f"    interface {name}\n        module procedure {name}_f08, {name}_mpi\n    end interface\n"
            procedures += procedure(name, "f08", arguments, VALUES[result.strip()])
            procedures += procedure(name, "mpi", arguments, VALUES[result.strip()])
        else:
            interfaces += interface(name, VALUES[result.strip()], arguments, name)
    for handle, converted in HANDLES.items():
        interfaces += (f'        function {converted}_from_fortran(fortran) bind(c, name="cldist_{converted}_from_fortran")\n'
                       f"            import\n            integer(c_int), value :: fortran\n"
                       f"            integer({kind_of(handle)}) :: {converted}_from_fortran\n        end function\n")
    interfaces += ('        function request_to_fortran(c_request) bind(c, name="cldist_request_to_fortran")\n'
                   "            import\n            integer(handle), value :: c_request\n"
                   "            integer(c_int) :: request_to_fortran\n        end function\n"
                   '        function cl_mem_to_fortran() bind(c, name="cldist_mpi_cl_mem_to_fortran")\n'
                   "            import\n            integer(c_int) :: cl_mem_to_fortran\n        end function\n")
    module += f"    interface\n{interfaces}    end interface\n{generic}contains\n{procedures}end module\n"
    pathlib.Path(output).write_text(module, encoding="utf-8")


if __name__ == "__main__":
    main()

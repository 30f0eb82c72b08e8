"""Generates the header of a candidate (a CUDA source that implements a task). It declares the launch function
that the candidate must define. It also defines `kernelblaster_call`, which calls this function with an array
of arguments."""

import re

from kernelblaster.plain_text import comment
from kernelblaster.records import Scalar, Signature, Tensor

C_TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
}
SCALAR_TYPES = {"int": "int64_t", "float": "double", "bool": "bool"}
INCLUDES = "#include <cuda_runtime.h>\n#include <cstdint>\n"
HALF_INCLUDES = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
HALF = re.compile(r"half|bf16|bfloat|##", re.IGNORECASE)  # names that need them, or may be pasted to such
# libstdc++'s guard of the special functions of C++17 (Bessel, zeta, ...), which <cmath> includes, and with
# them <limits> and std::min: a quarter of the time that nvcc takes for a small kernel.
SPECIAL_FUNCTIONS = "_GLIBCXX_BITS_SPECFUN_H"
# Names of the standard library, or what may be pasted to such; headers that are neither C's nor CUDA's own.
STANDARD = re.compile(
    r"\bstd\b|##|#\s*include(?!\s*<(?:\w+\.h|c(?:assert|float|limits|math|stddef|stdint|stdio|stdlib|string))>)"
)


def c_arguments(signature: Signature) -> list[tuple[str, str]]:
    """Returns the arguments of a candidate's launch function for this `signature`, without the stream at the
    end, as (C type, name), in calling order: outputs, inputs, parameters, sizes. Pointers to inputs and
    parameters are const."""
    arguments = [(C_TYPES[t.dtype] + "*", t.name) for t in signature.outputs]
    for item in signature.inputs:
        if isinstance(item, Scalar):
            arguments.append((SCALAR_TYPES[item.kind], item.name))
        else:
            arguments.append((f"const {C_TYPES[item.dtype]}*", item.name))
    arguments += [(f"const {C_TYPES[t.dtype]}*", t.name) for t in signature.parameters]
    arguments += [("int64_t", size.name) for size in signature.sizes]
    return arguments


def includes(code: str) -> str:
    """Returns the `#include` lines of the CUDA headers on which a candidate may rely. Those for half
    precision, which take half of the compile time, are included only if `code` mentions their types."""
    return INCLUDES + (HALF_INCLUDES if HALF.search(code) else "")


def left_out(code: str) -> list[str]:
    """Returns macros to define so that libstdc++'s special functions of C++17 (Bessel, zeta, ...) are not
    compiled with `code`; that saves a quarter of nvcc's time. Empty if `code` may need the standard library:
    if it names `std`, or includes headers that are neither C's nor CUDA's."""
    return [] if STANDARD.search(code) else [SPECIAL_FUNCTIONS]


def declaration(signature: Signature, title: str) -> str:
    """Returns the C declaration of `launch_gpu_implementation`, the function that a candidate must define for
    a task with this `signature`, after a comment with name, type, dimensions and role of each tensor; `title`
    is the first line of that comment."""
    rows = [(t.name, t.dtype, f"[{', '.join(t.dims)}]", t.role) for t in signature.tensors]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"// {comment(title)}"]
    for name, dtype, dims, role in rows:
        lines.append(f"//   {name:{widths[0]}}  {dtype:{widths[1]}}  {dims:{widths[2]}}  {role}")
    lines.append('extern "C" void launch_gpu_implementation(')
    groups = [
        [_typed(t, "") for t in signature.outputs],
        [_typed(item, "const ") for item in signature.inputs],
        [_typed(t, "const ") for t in signature.parameters],
        [f"int64_t {size.name}" for size in signature.sizes],
    ]
    lines += ["    " + ", ".join(group) + "," for group in groups if group]
    lines.append("    cudaStream_t stream);")
    return "\n".join(lines) + "\n"


def judge_header(signature: Signature, title: str, source: str) -> str:
    """Returns the text that is included before a candidate's `source`, for a task with this `signature`. It
    declares the candidate's launch function; `title` is the first line of the comment above the declaration.
    It also defines `kernelblaster_call(arguments, stream)`, where `arguments` is an array of the addresses of
    all arguments. That function calls the launch function, so that KernelBlaster can call candidates of any
    signature in the same way."""
    arguments = c_arguments(signature)
    declared = declaration(signature, title)
    unpacked = [f"*({kind}*)arguments[{i}]" for i, (kind, _) in enumerate(arguments)]
    call = ",\n      ".join([*unpacked, "stream"])
    return (
        f"#pragma once\n{includes(declared + source)}{declared}"
        'extern "C" void kernelblaster_call(void* const* arguments, cudaStream_t stream) {\n'
        f"  launch_gpu_implementation(\n      {call});\n}}\n"
    )


def _typed(item: Tensor | Scalar, qualifier: str) -> str:
    """The C declaration (type and name) of one argument; `qualifier`, such as "const ", precedes the type of
    a tensor and is ignored for a scalar."""
    if isinstance(item, Scalar):
        return f"{SCALAR_TYPES[item.kind]} {item.name}"
    return f"{qualifier}{C_TYPES[item.dtype]}* {item.name}"

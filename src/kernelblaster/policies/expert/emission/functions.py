"""The device functions and types that emitted kernels use, as Python objects that emitters call to write a
C++ call. Each names the file of device_code/ (or the CUDA header) that defines it."""

from kernelblaster.policies.expert.cuda.headers import Header, header
from kernelblaster.policies.expert.cuda.terms import CudaType, DeviceFunction, Operand

PACK, STREAMING, COPY_ASYNC = header("pack"), header("streaming"), header("copy_async")
CLUSTER_REDUCE, PIPELINE, SCALES = header("cluster_reduce"), header("pipeline"), header("scales")
TIME_STEPS, RESIDENT_COLUMNS = header("time_steps"), header("resident_columns")
SPLIT_TERMS, CUDA_PIPELINE = header("split_terms"), Header("cuda_pipeline", "#include <cuda_pipeline.h>")


def _own(name: str) -> DeviceFunction:
    """The device function `name`, defined by the file of the same name in device_code/."""
    return DeviceFunction(name, header(name))


write_pack = DeviceFunction("write_pack", PACK)
read_once, write_once = (DeviceFunction(name, STREAMING) for name in ("read_once", "write_once"))
block_reduce, block_shuffle_reduce, warp_reduce, column_reduce = map(
    _own, ("block_reduce", "block_shuffle_reduce", "warp_reduce", "column_reduce")
)
tell_cluster, meet_cluster, hear_cluster = (
    DeviceFunction(f"{name}_cluster", CLUSTER_REDUCE) for name in ("tell", "meet", "hear")
)
copy_async, close_copies, wait_for_copies = (
    DeviceFunction(name, COPY_ASYNC) for name in ("copy_async", "close_copies", "wait_for_copies")
)
start_in_turn, read_near, processors = map(_own, ("start_in_turn", "read_near", "processors"))
wait_for_steps, tell_steps, copy_states = (
    DeviceFunction(name, TIME_STEPS) for name in ("wait_for_steps", "tell_steps", "copy_states")
)
scale_for, largest_of_row = (DeviceFunction(name, SPLIT_TERMS) for name in ("scale_for", "largest_of_row"))
pipeline_memcpy_async, pipeline_commit, pipeline_wait_prior = (
    DeviceFunction(f"__pipeline_{name}", CUDA_PIPELINE) for name in ("memcpy_async", "commit", "wait_prior")
)
prepare, shared_address = (DeviceFunction(name, PIPELINE) for name in ("prepare", "shared_address"))
DIVIDER = CudaType("Divider", header("divider"))
SCALES_TYPE = CudaType("Scales", SCALES)


def pack_type(element: CudaType, width: Operand | str) -> CudaType:
    """The C++ type `Pack<element, width>`, a vector of `width` neighbouring elements; the width is a number
    or the name of a constant in the kernel."""
    return CudaType(f"Pack<{element}, {width}>", PACK)

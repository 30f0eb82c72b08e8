"""Matrix products: by which kernel depends on how they are tiled."""

from kernelblaster.policies.expert import emit as emitting
from kernelblaster.policies.expert.families import group_product, reduction, tensor_product, tiled_product
from kernelblaster.policies.expert.plan import Kernel, Plan, TensorTile, Tile

FAMILIES = ("matrix_product",)


def emit(kernel: Kernel, plan: Plan) -> emitting.Emitted:
    tile = kernel.schedule.tile
    if isinstance(tile, TensorTile):
        return (
            group_product.emit(kernel, plan) if tile.engine == "wgmma" else tensor_product.emit(kernel, plan)
        )
    if isinstance(tile, Tile):
        return tiled_product.emit(kernel, plan)
    return reduction.emit(kernel, plan)

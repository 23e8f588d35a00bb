"""Operations on boxes, and layers."""

from torchvision.ops import boxes, misc
from torchvision.ops.boxes import box_area
from torchvision.ops.misc import FrozenBatchNorm2d

__all__ = ["FrozenBatchNorm2d", "box_area", "boxes", "misc"]

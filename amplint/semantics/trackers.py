"""amplint's trackers, in the order in which they handle a hook."""

from __future__ import annotations

from amplint.semantics.accumulation.late_sync import LateSync
from amplint.semantics.accumulation.uncleared import Clearing
from amplint.semantics.accumulation.windows import Windows
from amplint.semantics.checkpoints.checkpoints import Checkpoints
from amplint.semantics.checkpoints.owners import ScalerOwners
from amplint.semantics.checkpoints.sides import OneSidedCheckpoints
from amplint.semantics.configs.files import ConfigFiles
from amplint.semantics.custom_functions.custom_functions import CustomFunctions
from amplint.semantics.custom_functions.rehearsal import Contexts
from amplint.semantics.frameworks.apex import Apex
from amplint.semantics.frameworks.api_uses import ApiUses
from amplint.semantics.frameworks.callees import Callees
from amplint.semantics.frameworks.decorators import SwitchDecorators
from amplint.semantics.frameworks.deepspeed import DeepSpeed
from amplint.semantics.frameworks.float8 import Float8
from amplint.semantics.frameworks.frameworks import Frameworks
from amplint.semantics.frameworks.micro_batches import MicroBatches
from amplint.semantics.frameworks.own_scalers import OwnScalers
from amplint.semantics.frameworks.torch_versions import TorchVersions
from amplint.semantics.frameworks.trainers import Trainers
from amplint.semantics.frameworks.unprepared import Unprepared
from amplint.semantics.frameworks.unscaled_again import UnscaledTwice
from amplint.semantics.frameworks.whole_losses import WholeLosses
from amplint.semantics.losses.penalties import Penalties
from amplint.semantics.losses.readings import Readings
from amplint.semantics.losses.shares import Shares
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.clip_order import ClipOrder
from amplint.semantics.memory.ledger import Ledger
from amplint.semantics.memory.progress import Owners
from amplint.semantics.memory.rhythm import Rhythm
from amplint.semantics.memory.scaling import Scaling
from amplint.semantics.memory.undone import Obligations
from amplint.semantics.models.averages import Averages
from amplint.semantics.models.averages_alike import AveragesAlike
from amplint.semantics.models.compiled import Compiled
from amplint.semantics.models.copies import Copies
from amplint.semantics.models.flash_models import FlashModels
from amplint.semantics.models.grown import GrownLists
from amplint.semantics.models.half_models import HalfModels
from amplint.semantics.models.half_outputs import HalfOutputs
from amplint.semantics.models.held_shards import HeldShards
from amplint.semantics.models.hidden_states import HiddenStates
from amplint.semantics.models.loading import LoadedModels
from amplint.semantics.models.models import Models
from amplint.semantics.models.optimized import Optimizers
from amplint.semantics.models.origins import Origins
from amplint.semantics.models.outside import Outside
from amplint.semantics.models.parameters import Parameters
from amplint.semantics.models.placement import Placements
from amplint.semantics.models.results import Results
from amplint.semantics.models.sharding import Sharding
from amplint.semantics.models.stale_copies import StaleCopies
from amplint.semantics.models.stored_weights import StoredWeights
from amplint.semantics.models.threads import Threads
from amplint.semantics.models.unseen_steps import UnseenSteps
from amplint.semantics.protocol.clearing import LoopsOverGradients
from amplint.semantics.protocol.dead_items import DeadItems
from amplint.semantics.protocol.gradient_uses import GradientUses
from amplint.semantics.protocol.mistaken import Mistaken
from amplint.semantics.protocol.named_clips import NamedClips
from amplint.semantics.protocol.overflow_tests import OverflowTests
from amplint.semantics.protocol.protocol import Protocol
from amplint.semantics.protocol.protocol_calls import ProtocolCalls
from amplint.semantics.protocol.schedulers import Schedulers
from amplint.semantics.protocol.script_ends import ScriptEnds
from amplint.semantics.protocol.short_lived import ShortLived
from amplint.semantics.protocol.unended import Updates
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.regions.devices import Devices
from amplint.semantics.regions.fixed_devices import FixedDevices
from amplint.semantics.regions.half_results import HalfResults
from amplint.semantics.regions.ran import RegionUse
from amplint.semantics.regions.tracker import Regions
from amplint.semantics.seams.discards import Discards
from amplint.semantics.seams.half_casts import HalfCasts
from amplint.semantics.seams.seams import Seams
from amplint.semantics.seams.segments import Segments
from amplint.semantics.seams.unconverted import Unconverted
from amplint.semantics.tensors.attention import Attention
from amplint.semantics.tensors.cancelling import Cancelling
from amplint.semantics.tensors.cast_back import CastBacks
from amplint.semantics.tensors.clashes import Clashes
from amplint.semantics.tensors.coarse_frequencies import CoarseFrequencies
from amplint.semantics.tensors.dtype_choices import DtypeChoices
from amplint.semantics.tensors.exchanges import Exchanges
from amplint.semantics.tensors.gathered import Gathered
from amplint.semantics.tensors.indexing import StoredItems
from amplint.semantics.tensors.joins import Joins
from amplint.semantics.tensors.kernel_sums import KernelSums
from amplint.semantics.tensors.kinds import Kinds
from amplint.semantics.tensors.layers import Layers
from amplint.semantics.tensors.lifted_results import LiftedResults
from amplint.semantics.tensors.limits import DtypeLimits
from amplint.semantics.tensors.module_calls import ModuleCalls
from amplint.semantics.tensors.numerics import Numerics
from amplint.semantics.tensors.off_inputs import OffInputs
from amplint.semantics.tensors.probabilities import Probabilities
from amplint.semantics.tensors.sensitive import SensitiveRuns
from amplint.semantics.tensors.subregions import Subregions
from amplint.semantics.tensors.sums import Sums
from amplint.semantics.tensors.tensors import Tensors
from amplint.semantics.tensors.uniform import Uniform
from amplint.semantics.tensors.unlifted_losses import UnliftedLosses
from amplint.semantics.tensors.unseen_fills import UnseenFills
from amplint.semantics.tensors.weights import Weights

TRACKERS: tuple[type[Tracker], ...] = (
    # shared state
    CallIndex,
    Owners,
    Ledger,
    Rhythm,
    Scaling,
    Obligations,
    ClipOrder,
    Origins,
    # objects
    ConfigFiles,
    TorchVersions,
    ApiUses,
    Callees,
    Models,
    UnseenSteps,
    HalfModels,
    Windows,
    LateSync,
    Frameworks,
    MicroBatches,
    UnscaledTwice,
    WholeLosses,
    DeepSpeed,
    OwnScalers,
    Unprepared,
    Float8,
    Trainers,
    CustomFunctions,
    Contexts,
    Threads,
    HalfCasts,
    Discards,
    CastBacks,
    LiftedResults,
    # checkpoints and the protocol
    Checkpoints,
    ScalerOwners,
    OneSidedCheckpoints,
    ProtocolCalls,
    Segments,
    Protocol,
    OverflowTests,
    Mistaken,
    ShortLived,
    Schedulers,
    Regions,
    RegionUse,
    Devices,
    FixedDevices,
    # parameters and tensors
    Parameters,
    LoadedModels,
    Placements,
    Optimizers,
    GrownLists,
    Gathered,
    Averages,
    AveragesAlike,
    Sharding,
    HeldShards,
    FlashModels,
    StaleCopies,
    Compiled,
    Weights,
    Uniform,
    Layers,
    ModuleCalls,
    Exchanges,
    SensitiveRuns,
    Probabilities,
    Cancelling,
    Joins,
    KernelSums,
    UnseenFills,
    DtypeChoices,
    Tensors,
    Kinds,
    GradientUses,
    NamedClips,
    Shares,
    Readings,
    Sums,
    DtypeLimits,
    Numerics,
    StoredItems,
    Copies,
    Apex,
    Seams,
    Clashes,
    CoarseFrequencies,
    Attention,
    Outside,
    HalfOutputs,
    HiddenStates,
    StoredWeights,
    Penalties,
    HalfResults,
    Results,
    # loops as a whole
    LoopsOverGradients,
    DeadItems,
    # the end of the file
    Subregions,
    Unconverted,
    UnliftedLosses,
    OffInputs,
    SwitchDecorators,
    Updates,
    Clearing,
    ScriptEnds,
)

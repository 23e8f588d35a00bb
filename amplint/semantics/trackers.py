"""The trackers of amplint, in the order in which they handle a hook."""

from __future__ import annotations

from amplint.semantics.apex import Apex
from amplint.semantics.api_uses import ApiUses
from amplint.semantics.call_index import CallIndex
from amplint.semantics.callees import Callees
from amplint.semantics.checkpoints import Checkpoints
from amplint.semantics.clashes import Clashes
from amplint.semantics.clearing import LoopsOverGradients
from amplint.semantics.contexts import Regions
from amplint.semantics.copies import Copies
from amplint.semantics.custom_functions import CustomFunctions
from amplint.semantics.dead_items import DeadItems
from amplint.semantics.decorators import SwitchDecorators
from amplint.semantics.exchanges import Exchanges
from amplint.semantics.frameworks import Frameworks
from amplint.semantics.gradient_uses import GradientUses
from amplint.semantics.half_casts import HalfCasts
from amplint.semantics.half_models import HalfModels
from amplint.semantics.half_outputs import HalfOutputs
from amplint.semantics.half_results import HalfResults
from amplint.semantics.indexing import StoredItems
from amplint.semantics.layers import Layers
from amplint.semantics.ledger import Ledger
from amplint.semantics.models import Models
from amplint.semantics.numerics import Numerics
from amplint.semantics.outside import Outside
from amplint.semantics.parameters import Parameters
from amplint.semantics.penalties import Penalties
from amplint.semantics.progress import Owners
from amplint.semantics.protocol import Protocol
from amplint.semantics.protocol_calls import ProtocolCalls
from amplint.semantics.ran import RegionUse
from amplint.semantics.readings import Readings
from amplint.semantics.rhythm import Rhythm
from amplint.semantics.schedulers import Schedulers
from amplint.semantics.script_ends import ScriptEnds
from amplint.semantics.seams import Seams
from amplint.semantics.segments import Segments
from amplint.semantics.shares import Shares
from amplint.semantics.subregions import Subregions
from amplint.semantics.sums import Sums
from amplint.semantics.tensors import Tensors
from amplint.semantics.threads import Threads
from amplint.semantics.tracker import Tracker
from amplint.semantics.trainers import Trainers
from amplint.semantics.uncleared import Clearing
from amplint.semantics.undone import Undone
from amplint.semantics.unended import Updates
from amplint.semantics.weights import Weights
from amplint.semantics.windows import Windows

TRACKERS: tuple[type[Tracker], ...] = (
    # memory that several share
    CallIndex,
    Owners,
    Ledger,
    Rhythm,
    Undone,
    # what there is
    ApiUses,
    Callees,
    Models,
    HalfModels,
    Windows,
    Frameworks,
    Trainers,
    CustomFunctions,
    Threads,
    HalfCasts,
    # state that is saved, and the protocol
    Checkpoints,
    ProtocolCalls,
    Segments,
    Protocol,
    Schedulers,
    Regions,
    RegionUse,
    # parameters and tensors
    Parameters,
    Weights,
    Layers,
    Exchanges,
    Tensors,
    GradientUses,
    Shares,
    Readings,
    Sums,
    Numerics,
    StoredItems,
    Copies,
    Apex,
    Seams,
    Clashes,
    Outside,
    HalfOutputs,
    Penalties,
    HalfResults,
    # loops as a whole
    LoopsOverGradients,
    DeadItems,
    # the end of the file
    Subregions,
    SwitchDecorators,
    Updates,
    Clearing,
    ScriptEnds,
)

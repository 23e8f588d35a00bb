"""The operations of PyTorch, one row each, and the sets derived from them.

Source: torch 2.13; tests/test_catalogue.py compares the installed version.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

FORMS = {
    "f": "function of torch",
    "m": "method of tensors",
    "a": "attribute of tensors",
    "i": "method of tensors with an underscore behind its name, which works in place",
    "n": "function of torch.nn.functional",
    "l": "function of torch.linalg",
    "s": "function of torch.special",
    "x": "function of torch.fft",
    "d": "operator of the dispatcher only",
    "-": "no function: what a class of torch.nn runs, or a case of another operation",
}
"""Letter of the second column -> how the operation can be called."""

FACTS = {
    # the dtype of the result
    "keeps": "has the dtype of its input, integers included",
    "follows": "has the dtype of its input where that is floating",
    "keeps-integers": "has the dtype of its input where that is an integer",
    "bool": "gives truth values",
    "int64": "gives whole numbers: counts, or positions",
    "counts": "adds up integers in int64",
    "casts": "converts to this dtype",
    "promotes": "promotes its operands",
    "promotes-to-floating": "promotes its operands, integers to floating",
    "promotes-floating": "promotes its operands, which are floating",
    "expands": "brings its operands to one shape first, so that what had no dimensions counts as what has some",
    "alike": "refuses operands of different dtypes",
    "of-first": "has the dtype of its first operand, whatever that of the others is",
    "needs-floating": "refuses integers, or takes them in some cases only",
    "widens-only": "refuses a `dtype` that does not hold what it is given",
    "into-any": "writes in place into a tensor of any dtype",
    "out-alike": "writes only into an `out` of the dtype it makes",
    "out-any": "writes into an `out` of any dtype",
    "beside": "the parameters beside the first one whose dtypes count, each with its position after that",
    "number": "the parameter for a number that it puts into a tensor, with its position after the first one",
    # autocast, and kernels for half
    "cast": "cast by the autocast of some device",
    "operators": "the dispatcher's operators that decide what autocast does, where these have other names",
    "of-cat": "made of `cat`, `roll` on the CPU",
    "of-products": "made of products: on the CPU, autocast sees only these, behind the check that operands are alike",
    "out-not-cast": "left alone by autocast where it is given `out`",
    "no-half": "refuses both half dtypes on every device",
    "no-half-but-cast": "refuses both half dtypes on every device, and is computed in float32 by CUDA's autocast",
    "no-bfloat16": "refuses bfloat16 on every device; CUDA takes float16 for some sizes",
    "no-half-on-cpu": "refuses both half dtypes on the CPU alone",
    "no-half-on-cuda": "refuses both half dtypes on CUDA alone",
    "returns": "how many of the tensors it returns have the dtype of its operand, and how many there are",
    # dimensions
    "rank": "has this many dimensions",
    "same-rank": "has as many dimensions as its input",
    "some-rank": "has dimensions",
    "adds-dimension": "has one more dimension; a tuple of tensors counts as one in which they are stacked",
    "reduces": "gives one number, unless it gets a dimension",
    # numerical behaviour
    "view": "shares the memory of its input, where strides allow it",
    "reshapes": "gives the same numbers in the same order another shape",
    "reorders": "gives the same numbers in another order",
    "transposes": "exchanges two dimensions",
    "selects": "gives some of the numbers of its first operand",
    "repeats": "gives the same numbers several times",
    "copies": "gives the same numbers in the same shape",
    "transfers": "gives the same numbers, perhaps on another device",
    "joins": "gives the numbers of several tensors",
    "replaces": "gives the numbers of its input, some of them replaced",
    "writes": "writes the numbers of another operand into its first one",
    "tensor-source": "takes what it writes as a tensor only",
    "bounded": "gives numbers that are no larger than its input, than 1 or than a number it is given",
    "limits": "limits its input by what is beside it",
    "steps": "gives numbers that jump where its input does not",
    "indices-too": "returns positions beside its result",
    "indices-along": "returns positions beside its result where it gets a dimension",
    "asks": "gives what is no tensor",
    # kinds of operations
    "operator": "runs for this operator of Python, as syntax trees call it",
    "alias": "another name of this operation",
    "compares": "compares two operands",
    "loss": "a loss, with a `reduction`",
    "matrices": "a product of matrices or vectors, summed over a dimension",
    "blas": "run by BLAS",
    "convolves": "a convolution",
    "normalises": "brings numbers to a mean and a variance",
    "weights": "takes weights, which a class of torch.nn hands it",
    "drops": "drops numbers at random, and is run by this class of torch.nn",
    "fills": "fills its input with numbers that do not depend on it",
    "blank": "gives a tensor memory and no numbers",
    "creates": "makes a tensor",
    "creates-like": "makes a tensor like another one",
    "creates-new": "makes a tensor in the dtype of the one that it is a method of",
    "sized": "takes the size of the tensor as several arguments, too",
    "of-content": "makes a tensor of the numbers it is given",
    "float32": "makes float32 tensors where it is given no dtype, perhaps depending on the content",
    # classes of torch.nn
    "module": "the classes of torch.nn whose call runs it",
    "recurrent": "the class of torch.nn that runs it for all steps of a sequence",
    "cell": "the class of torch.nn that runs it for one step of a sequence",
}
"""The facts about an operation in its row. Facts with values are written `fact=value`, `fact=name:position,...`."""

_TABLE = """
# Losses
binary_cross_entropy        n  alike cast loss beside=target:0 module=BCELoss
binary_cross_entropy_with_logits fn cast loss beside=target:0 module=BCEWithLogitsLoss
cosine_embedding_loss       fn cast loss beside=input2:0,target:1 module=CosineEmbeddingLoss
cross_entropy               n  promotes-floating cast loss beside=target:0,weight:1
                               operators=nll_loss,cross_entropy_loss module=CrossEntropyLoss
ctc_loss                    fn cast no-half loss module=CTCLoss
gaussian_nll_loss           n  loss
hinge_embedding_loss        fn of-first cast loss beside=target:0 module=HingeEmbeddingLoss
huber_loss                  n  of-first cast loss beside=target:0 module=HuberLoss
kl_div                      fn promotes-floating cast loss beside=target:0 module=KLDivLoss
l1_loss                     n  promotes-floating expands cast loss beside=target:0 module=L1Loss
margin_ranking_loss         fn promotes-floating cast loss beside=input2:0,target:1 module=MarginRankingLoss
mse_loss                    n  promotes-floating expands cast loss beside=target:0 module=MSELoss
multi_margin_loss           n  cast no-half-on-cpu loss module=MultiMarginLoss
multilabel_margin_loss      n  cast loss module=MultiLabelMarginLoss
multilabel_soft_margin_loss n  promotes-floating cast loss beside=target:0 operators=sum
nll_loss                    n  cast loss beside=weight:1 module=NLLLoss
poisson_nll_loss            fn promotes-floating cast loss beside=target:0 module=PoissonNLLLoss
smooth_l1_loss              n  promotes-floating expands cast loss beside=target:0 module=SmoothL1Loss
soft_margin_loss            n  of-first cast loss beside=target:0 module=SoftMarginLoss
triplet_margin_loss         fn promotes-floating cast loss beside=positive:0,negative:1 module=TripletMarginLoss

# Products of matrices and convolutions
addbmm                       fmi alike cast out-not-cast matrices blas rank=2 beside=batch1:0,batch2:1
addmm                        fmi alike cast out-not-cast matrices blas rank=2 beside=mat1:0,mat2:1
addmv                        fmi alike cast out-not-cast matrices blas rank=1 beside=mat:0,vec:1
addr                         fmi promotes cast out-not-cast rank=2 beside=vec1:0,vec2:1
baddbmm                      fmi alike cast out-not-cast matrices blas rank=3 beside=batch1:0,batch2:1
bilinear                     fn  alike cast beside=input2:0,weight:1,bias:2
bmm                          fm  alike cast out-not-cast matrices blas rank=3 beside=mat2:0
chain_matmul                 f   alike out-any of-products cast out-not-cast matrices operators=chain_matmul,mm
conv1d                       fn  alike needs-floating cast same-rank convolves weights beside=weight:0,bias:1
                                 module=Conv1d
conv2d                       fn  alike needs-floating cast same-rank convolves weights beside=weight:0,bias:1
                                 module=Conv2d
conv3d                       fn  alike needs-floating cast same-rank convolves weights beside=weight:0,bias:1
                                 module=Conv3d
conv_transpose1d             fn  alike cast same-rank convolves weights beside=weight:0,bias:1
                                 module=ConvTranspose1d
conv_transpose2d             fn  alike cast same-rank convolves weights beside=weight:0,bias:1
                                 module=ConvTranspose2d
conv_transpose3d             fn  alike cast same-rank convolves weights beside=weight:0,bias:1
                                 module=ConvTranspose3d
convolution                  f   convolves
convolution_backward         d   convolves
cross                        fml alike cast beside=other:0
dot                          fm  alike cast matrices blas rank=0 beside=tensor:0,other:0
einsum                       f   alike cast matrices operators=einsum,bmm
inner                        fm  alike of-products cast matrices beside=other:0 operators=tensordot
linear                       n   alike needs-floating cast matrices weights beside=weight:0,bias:1 module=Linear
matmul                       fml alike cast out-not-cast matrices beside=other:0 operator=MatrixMultiply
mm                           fm  alike cast out-not-cast matrices blas rank=2 beside=mat2:0
multi_dot                    l   alike of-products cast out-not-cast matrices operators=linalg_multi_dot,mm
mv                           fm  alike cast out-not-cast matrices blas rank=1 beside=vec:0
outer                        fm  keeps promotes rank=2 beside=vec2:0
scaled_dot_product_attention n   alike cast beside=key:0,value:1,attn_mask:2
tensordot                    f   alike of-products cast matrices beside=other:0
vdot                         fm  alike cast matrices blas rank=0 beside=other:0
vecdot                       l   alike cast matrices beside=y:0,other:0 operators=linalg_vecdot

# Element by element
_softmax           f    bounded
abs                fmi  keeps out-alike same-rank bounded
absolute           fmi  keeps out-alike alias=abs
acos               fmi  cast same-rank
add                fmi  keeps promotes beside=other:0 operator=Add
addcdiv            fmi  follows promotes-to-floating cast beside=tensor1:0,tensor2:1
addcmul            fmi  keeps promotes cast beside=tensor1:0,tensor2:1
arctan2            fmi  promotes-to-floating alias=atan2 beside=other:0
asin               fmi  cast same-rank
atan               fmi  follows same-rank
atan2              fmi  promotes-to-floating cast beside=other:0
bitwise_and        fmi  promotes beside=other:0
bitwise_or         fmi  promotes beside=other:0
bitwise_xor        fmi  promotes beside=other:0
ceil               fmi  keeps out-alike same-rank bounded steps
celu               fn   follows needs-floating same-rank module=CELU
clamp              fmi  keeps promotes bounded limits beside=min:0,max:1
clamp_max          fmi  keeps bounded limits beside=max:0
clamp_min          fmi  keeps bounded limits beside=min:0
clip               fmi  keeps limits alias=clamp beside=min:0,max:1
cos                fmi  follows same-rank bounded
cosh               fmi  cast same-rank
div                fmi  follows promotes-to-floating beside=other:0 operator=Divide
divide             fmi  promotes-to-floating alias=div beside=other:0
einsum_elementwise -    promotes cast operators=einsum
elu                n    follows needs-floating same-rank module=ELU
erf                fmis follows same-rank
erfinv             fmis cast same-rank
exp                fmi  cast same-rank
exp2               fmis follows
expm1              fmis cast same-rank
floor              fmi  keeps out-alike same-rank bounded steps
floor_divide       fmi  promotes beside=other:0 operator=FloorDivide
fmax               fm   promotes beside=other:0
fmin               fm   promotes beside=other:0
fmod               fmi  promotes beside=other:0
frac               fmi  follows out-alike same-rank
gelu               n    follows needs-floating out-alike same-rank module=GELU
glu                n    follows needs-floating same-rank module=GLU
gumbel_softmax     n    cast operators=softmax
hardsigmoid        n    follows needs-floating same-rank module=Hardsigmoid
hardswish          n    follows needs-floating same-rank module=Hardswish
hardtanh           n    follows keeps-integers same-rank bounded module=Hardtanh
heaviside          fmi  alike steps beside=values:0
hypot              fmi  promotes-to-floating beside=other:0
leaky_relu         n    follows needs-floating same-rank module=LeakyReLU
lerp               fmi  follows alike beside=end:0,weight:1
lgamma             fmi  follows same-rank
log                fmi  cast same-rank
log10              fmi  cast same-rank
log1p              fmis cast same-rank
log2               fmi  cast same-rank
log_softmax        fmns needs-floating out-alike cast same-rank module=LogSoftmax
logaddexp          fm   promotes-to-floating beside=other:0
atanh              fmi  follows same-rank
logit              fmis follows same-rank
logsigmoid         n    follows needs-floating out-alike same-rank module=LogSigmoid
maximum            fm   keeps promotes bounded beside=other:0
minimum            fm   keeps promotes bounded beside=other:0
mish               n    follows needs-floating same-rank module=Mish
mul                fmi  keeps promotes beside=other:0 operator=Multiply
multiply           fmi  keeps promotes alias=mul beside=other:0
nan_to_num         fmi  keeps out-alike same-rank
neg                fmi  keeps out-alike same-rank bounded
pow                fmi  promotes cast beside=exponent:0 operator=Power
reciprocal         fmi  cast same-rank
relu               fmin keeps same-rank bounded module=ReLU
relu6              n    keeps same-rank module=ReLU6
remainder          fmi  promotes beside=other:0 operator=Modulo
round              fmis keeps out-alike same-rank bounded steps
rsqrt              fmi  cast same-rank
rsub               f    promotes beside=other:0
selu               fn   follows needs-floating same-rank module=SELU
sgn                fmi  steps
sigmoid            fmin follows same-rank bounded module=Sigmoid
sign               fmi  keeps out-alike same-rank bounded steps
silu               n    follows needs-floating same-rank module=SiLU
sin                fmi  follows same-rank bounded
sinh               fmi  cast same-rank
softmax            fmns needs-floating out-alike cast same-rank module=Softmax
softmin            n    cast same-rank operators=softmax module=Softmin
softplus           n    needs-floating out-alike cast same-rank module=Softplus
softsign           n    follows needs-floating same-rank
sqrt               fmi  follows same-rank
square             fmi  keeps-integers cast same-rank operators=pow
sub                fmi  keeps promotes beside=other:0 operator=Subtract
subtract           fmi  keeps promotes alias=sub beside=other:0
tan                fmi  cast same-rank
tanh               fmin follows same-rank bounded module=Tanh
tanhshrink         n    follows needs-floating same-rank
threshold          fn   bounded
threshold_backward d    bounded
true_divide        fmi  promotes-to-floating alias=div beside=other:0
trunc              fmi  keeps out-alike same-rank bounded steps
xlogy              fmis promotes-to-floating beside=other:0

# Normalisation, pooling, attention and other layers
adaptive_avg_pool1d     fn  follows needs-floating same-rank module=AdaptiveAvgPool1d
adaptive_avg_pool2d     n   follows needs-floating same-rank module=AdaptiveAvgPool2d
adaptive_avg_pool3d     n   cast same-rank
adaptive_max_pool1d     fn  follows same-rank
adaptive_max_pool2d     n   follows same-rank module=AdaptiveMaxPool2d
avg_pool1d              fn  follows needs-floating same-rank module=AvgPool1d
avg_pool2d              n   follows needs-floating same-rank module=AvgPool2d
avg_pool3d              n   needs-floating cast same-rank
batch_norm              fn  follows needs-floating same-rank normalises weights
                            beside=running_mean:0,running_var:1,weight:2,bias:3
                            module=BatchNorm1d,BatchNorm2d,BatchNorm3d
embedding               fn  some-rank weights
grid_sample             n   alike cast beside=grid:0 operators=grid_sampler
group_norm              fn  needs-floating cast same-rank normalises weights beside=weight:1,bias:2 module=GroupNorm
gru                     f   recurrent=GRU
grucell                 -   cell=GRUCell
instance_norm           fn  follows needs-floating same-rank normalises
                            module=InstanceNorm1d,InstanceNorm2d,InstanceNorm3d
interpolate             n   needs-floating cast same-rank operators=upsample_nearest2d module=Upsample
layer_norm              fn  needs-floating cast same-rank normalises weights beside=weight:1,bias:2 module=LayerNorm
local_response_norm     n   cast same-rank operators=pow,avg_pool3d module=LocalResponseNorm
lstm                    f   recurrent=LSTM
lstmcell                -   cell=LSTMCell
max_pool1d              fn  keeps same-rank module=MaxPool1d
max_pool2d              fn  keeps same-rank module=MaxPool2d
max_pool2d_with_indices n   bounded
normalize               n   needs-floating cast same-rank operators=linalg_vector_norm
pad                     n   keeps same-rank replaces number=value:2
pixel_shuffle           fn  keeps reorders module=PixelShuffle
prelu                   fmn alike cast same-rank weights beside=weight:0 module=PReLU
rms_norm                fn  of-first needs-floating cast same-rank weights beside=weight:1 module=RMSNorm
rnn                     -   recurrent=RNN
rnncell                 -   cell=RNNCell

# Shapes, selections and copies
_unsafe_view      d   reshapes view
alias             d   copies view
as_strided        fmi keeps view selects
broadcast_to      fm  keeps repeats view
cat               f   keeps promotes cast some-rank joins
chunk             fm  keeps adds-dimension selects view
clone             fm  keeps same-rank copies
concat            f   promotes of-cat joins alias=cat
concatenate       f   promotes of-cat joins alias=cat
contiguous        m   keeps same-rank copies
cpu               m   keeps same-rank transfers
cuda              m   keeps same-rank transfers
data              a   copies view
detach            fmi keeps same-rank copies view
diag              fm  keeps out-alike selects
diagonal          fml keeps selects view
diag_embed        fm  keeps
expand            m   keeps repeats view
expand_as         m   keeps repeats view
flatten           fm  keeps some-rank reshapes view module=Flatten
flip              fm  keeps same-rank reorders
fliplr            fm  keeps same-rank reorders
flipud            fm  keeps same-rank reorders
gather            fm  keeps same-rank selects
H                 a   reorders view transposes
hstack            f   promotes of-cat joins
index             m   selects
index_select      fm  keeps same-rank selects
lift              d   copies
lift_fresh        d   copies view
lift_fresh_copy   d   copies
masked_select     fm  keeps out-alike selects
mH                a   reorders view transposes
meshgrid          f   keeps alike repeats view
moveaxis          fm  keeps reorders view alias=movedim
movedim           fm  keeps reorders view
mT                a   reorders view transposes
narrow            fm  keeps same-rank selects view
permute           fm  keeps same-rank reorders view
ravel             fm  keeps reshapes view
repeat            m   keeps repeats
repeat_interleave fm  keeps repeats
reshape           fm  keeps reshapes view
reshape_as        m   keeps reshapes view
roll              fm  keeps of-cat same-rank reorders
rot90             fm  keeps same-rank reorders
select            fm  keeps selects view
slice             d   selects view
sort              fm  keeps same-rank reorders indices-too
split             fm  keeps adds-dimension selects view
squeeze           fmi keeps reshapes view
stack             f   keeps promotes cast some-rank adds-dimension joins
swapaxes          fmi keeps same-rank reorders transposes view alias=transpose
swapdims          fmi keeps same-rank reorders transposes view alias=transpose
T                 a   reorders view transposes
t                 fmi keeps reorders view transposes
take              fm  keeps selects
take_along_dim    fm  keeps out-alike selects
tensor_split      fm  keeps adds-dimension selects view
tile              fm  keeps repeats
to                m   transfers
topk              fm  keeps same-rank selects indices-too
transpose         fmi keeps same-rank reorders view transposes
unbind            fm  keeps same-rank selects view
unflatten         fm  keeps reshapes view module=Unflatten
unfold            mn  keeps selects view
unsqueeze         fmi keeps some-rank adds-dimension reshapes view
view              m   keeps reshapes view module=Identity
view_as           m   keeps reshapes view
vstack            f   promotes of-cat joins

# Writing into tensors
constant_pad_nd f   replaces
index_add       fmi alike same-rank writes tensor-source beside=source:2,tensor:2
index_copy      fmi alike cast same-rank replaces writes tensor-source beside=source:2,tensor:2
index_fill      fmi keeps same-rank replaces number=value:2
index_put       fmi alike cast replaces writes beside=values:1
index_reduce    fmi alike same-rank writes tensor-source beside=source:2
put             fmi alike replaces writes beside=source:1
masked_fill     fmi keeps replaces number=value:1
masked_scatter  fmi alike replaces writes tensor-source beside=source:1
scatter         fmi keeps alike same-rank replaces writes beside=src:2 number=value:2
scatter_add     fmi alike cast same-rank writes tensor-source beside=src:2
scatter_reduce  fmi alike writes tensor-source beside=src:2
select_backward d   replaces
select_scatter  fm  replaces
slice_backward  d   replaces
slice_scatter   fm  replaces
tril            fmi keeps out-alike same-rank replaces
triu            fmi keeps out-alike same-rank replaces
where           fm  keeps promotes out-alike replaces beside=other:1 number=other:1

# New tensors and random numbers
alpha_dropout         fn   drops=AlphaDropout
arange                f    creates float32
as_tensor             f    creates float32 of-content
bartlett_window       f    creates float32
bernoulli             fmi  follows into-any out-any
blackman_window       f    creates float32
copy                  i    fills into-any
dropout               fn   follows needs-floating same-rank drops=Dropout module=Dropout,Dropout1d,Dropout2d
dropout1d             n    follows drops=Dropout1d
dropout2d             n    follows drops=Dropout2d
dropout3d             n    drops=Dropout3d
empty                 f    creates float32 sized blank
empty_like            f    creates-like blank
empty_permuted        f    blank
empty_quantized       f    blank
empty_strided         f    blank
exponential           i    fills
eye                   f    creates float32
feature_alpha_dropout fn   drops=FeatureAlphaDropout
fill                  fi   fills into-any same-rank number=value:0
fill_diagonal         i    number=fill_value:0
FloatTensor           f    float32
from_numpy            f    creates float32 of-content
full                  f    creates float32
full_like             f    creates-like
hamming_window        f    creates float32
hann_window           f    creates float32
kaiser_window         f    creates float32
linspace              f    creates float32
logspace              f    creates float32
new                   m    sized
new_empty             m    creates-new sized blank
new_empty_strided     m    blank
new_full              m    creates-new
new_ones              m    creates-new sized
new_tensor            m    creates-new of-content
new_zeros             m    creates-new sized
normal                fi   fills creates float32
ones                  f    creates float32 sized
ones_like             f    creates-like
rand                  f    creates float32 sized
rand_like             f    creates-like
randint               f    creates
randn                 f    creates float32 sized
randn_like            f    creates-like
random                i    fills into-any
randperm              f    creates
resize                mi   blank
resize_as             mi   blank
scalar_tensor         f
set                   i
Tensor                fnsx float32
tensor                f    creates float32 of-content
uniform               i    fills
zero                  i    fills into-any
zeros                 f    creates float32 sized
zeros_like            f    creates-like

# Conversions
bfloat16 fm casts=bfloat16
bool     fm bool casts=bool
byte     m  casts=uint8
double   fm casts=float64
float    fm same-rank casts=float32
half     fm same-rank casts=float16
int      fm casts=int32
long     fm int64 same-rank casts=int64

# What is asked of a tensor
data_ptr     m  asks
dim          m  asks
element_size m  asks
get_device   fm asks
item         m  asks
ndimension   m  asks
nelement     m  asks
numel        fm asks
numpy        m  asks
size         m  asks
stride       m  asks
tolist       m  asks

# Comparisons and positions
all           fm  bool reduces
any           fm  bool reduces
argmax        fm  int64 reduces
argmin        fm  int64 reduces
argsort       fm  int64
bincount      fm  int64
count_nonzero fm  int64 reduces
eq            fmi bool compares
ge            fmi bool compares
gt            fmi bool compares
isclose       fm  bool compares
isfinite      fm  bool same-rank
isin          f   bool
isinf         fm  bool same-rank
isnan         fm  bool same-rank
le            fmi bool compares
logical_and   fmi bool compares
logical_not   fmi bool same-rank
logical_or    fmi bool compares
logical_xor   fmi bool compares
lt            fmi bool compares
multinomial   fm  int64
ne            fmi bool compares
nonzero       fm  int64 rank=2
one_hot       n   int64
searchsorted  f   int64

# Reductions and scans
amax              fm  keeps out-alike reduces bounded
amin              fm  keeps out-alike reduces bounded
cdist             f   alike needs-floating cast no-half-but-cast no-half-on-cpu beside=x2:0
cosine_similarity fn  promotes-floating expands needs-floating cast beside=x2:0 module=CosineSimilarity
cummax            fm  keeps same-rank indices-too
cummin            fm  keeps same-rank indices-too
cumprod           fmi counts out-any cast same-rank
cumsum            fmi counts out-any cast same-rank
diff              fm  keeps
dist              fm  promotes-floating cast beside=other:0 rank=0
kthvalue          fm  keeps indices-too
logsumexp         fms cast reduces
matrix_norm       l   widens-only out-alike cast operators=linalg_matrix_norm
max               fm  keeps reduces bounded indices-along
mean              fm  follows needs-floating reduces
median            fm  keeps reduces indices-along
min               fm  keeps reduces bounded indices-along
mode              fm  indices-too
nanmean           fm  follows needs-floating reduces
nanmedian         fm  indices-along
nansum            fm  counts reduces
norm              fml needs-floating widens-only out-alike cast reduces
pairwise_distance fn  promotes-floating cast beside=x2:0 operators=norm module=PairwiseDistance
pdist             fn  cast no-half-but-cast
prod              fm  counts out-any cast reduces
quantile          fm  out-alike cast no-half reduces returns=1/1
renorm            fmi cast
std               fm  follows needs-floating reduces
std_mean          f   follows
sum               fm  counts out-any cast reduces
trace             fm  counts cast rank=0
var               fm  follows needs-floating reduces
var_mean          f   follows
vector_norm       l   needs-floating widens-only out-alike cast reduces operators=linalg_vector_norm

# Without kernels for half
airy_ai                   s   no-half-on-cuda
angle                     fm  no-half-on-cuda
bessel_j0                 s   no-half-on-cuda
bessel_j1                 s   no-half-on-cuda
bessel_y0                 s   no-half-on-cuda
bessel_y1                 s   no-half-on-cuda
chebyshev_polynomial_t    s   no-half-on-cuda
chebyshev_polynomial_u    s   no-half-on-cuda
chebyshev_polynomial_v    s   no-half-on-cuda
chebyshev_polynomial_w    s   no-half-on-cuda
cholesky                  fml no-half returns=1/1
cholesky_ex               l   no-half returns=1/2
cholesky_inverse          fm  no-half returns=1/1
cholesky_solve            fm  no-half returns=1/1
complex                   f   no-bfloat16
cond                      fl  no-half returns=1/1
det                       fml no-half returns=1/1
eig                       fml no-half
eigh                      l   no-half returns=2/2
eigvals                   l   no-half
eigvalsh                  l   no-half returns=1/1
erfcx                     s   no-half-on-cuda
fft                       x   no-bfloat16
fft2                      x   no-bfloat16
fftn                      x   no-bfloat16
geqrf                     fm  no-half returns=2/2
hermite_polynomial_h      s   no-half-on-cuda
hermite_polynomial_he     s   no-half-on-cuda
hfft                      x   no-bfloat16
hfft2                     x   no-bfloat16
hfftn                     x   no-bfloat16
histc                     fm  no-half-on-cuda
histogram                 fm  no-half
histogramdd               f   no-half
householder_product       l   no-half returns=1/1
ifft                      x   no-bfloat16
ifft2                     x   no-bfloat16
ifftn                     x   no-bfloat16
igamma                    fmi no-half-on-cuda
igammac                   fmi no-half-on-cuda
ihfft                     x   no-bfloat16
ihfft2                    x   no-bfloat16
ihfftn                    x   no-bfloat16
inv                       l   no-half returns=1/1
inv_ex                    l   no-half returns=1/2
inverse                   fm  no-half returns=1/1
irfft                     x   no-bfloat16
irfft2                    x   no-bfloat16
irfftn                    x   no-bfloat16
laguerre_polynomial_l     s   no-half-on-cuda
ldl_factor                l   no-half returns=1/2
ldl_solve                 l   no-half-on-cuda
legendre_polynomial_p     s   no-half-on-cuda
log_ndtr                  s   no-half-on-cuda
logdet                    fm  no-half returns=1/1
lstsq                     fml no-half returns=2/4
lu                        fml no-half returns=3/3
lu_factor                 l   no-half returns=1/2
lu_factor_ex              l   no-half returns=1/3
lu_solve                  fml no-half returns=1/1
lu_unpack                 f   no-half-on-cuda
matrix_rank               fl  no-half
modified_bessel_i0        s   no-half-on-cuda
modified_bessel_i1        s   no-half-on-cuda
modified_bessel_k0        s   no-half-on-cuda
modified_bessel_k1        s   no-half-on-cuda
nanquantile               fm  no-half returns=1/1
ndtri                     s   no-half-on-cuda
orgqr                     fm  no-half returns=1/1
ormqr                     fm  no-half returns=1/1
pca_lowrank               f   no-half returns=3/3
pinv                      l   no-half returns=1/1
pinverse                  fm  no-half returns=1/1
polar                     f   no-half
qr                        fml no-half returns=2/2
rfft                      x   no-bfloat16
rfft2                     x   no-bfloat16
rfftn                     x   no-bfloat16
scaled_modified_bessel_k0 s   no-half-on-cuda
scaled_modified_bessel_k1 s   no-half-on-cuda
shifted_chebyshev_polynomial_t s   no-half-on-cuda
shifted_chebyshev_polynomial_u s   no-half-on-cuda
shifted_chebyshev_polynomial_v s   no-half-on-cuda
shifted_chebyshev_polynomial_w s   no-half-on-cuda
slogdet                   fml no-half returns=2/2
solve                     fml no-half returns=1/1 alike beside=B:0
solve_triangular          l   no-half returns=1/1 alike beside=B:0
spherical_bessel_j0       s   no-half-on-cuda
stft                      fm  no-bfloat16
svd                       fml no-half returns=3/3
svd_lowrank               f   no-half returns=3/3
svdvals                   l   no-half returns=1/1
tensorinv                 l   no-half returns=1/1
tensorsolve               l   no-half returns=1/1
triangular_solve          fm  no-half returns=2/2
view_as_complex           f   no-bfloat16
zeta                      s   no-half-on-cuda
"""
"""Name, forms and facts of each operation; a line that begins with a space continues the previous one."""


def _columns() -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    forms, columns = dict[str, str](), {fact: dict[str, str]() for fact in FACTS}
    for row in _TABLE.replace("\n ", " ").splitlines():
        if row and row[0] != "#":
            name, forms[name], *facts = row.split()
            for fact in facts:
                key, _, value = fact.partition("=")
                columns[key][name] = value
    return forms, columns


OPERATIONS, _COLUMNS = _columns()
"""Name of each operation -> its forms, letters of `FORMS`."""


def operations_with(*facts: str) -> frozenset[str]:
    """The operations with all these facts."""
    return frozenset.intersection(*(frozenset(_COLUMNS[fact]) for fact in facts))


def fact_values(fact: str) -> Mapping[str, str]:
    """Operation -> the value of a fact, for operations that have it."""
    return _COLUMNS[fact]


def parameters(fact: str) -> dict[str, tuple[tuple[str, int], ...]]:
    """Operation -> parameters, each with its position after the first one, for a fact that lists some."""
    listed = {op: (one.partition(":") for one in value.split(",")) for op, value in fact_values(fact).items()}
    return {op: tuple((name, int(place)) for name, _, place in found) for op, found in listed.items()}


def spellings(*operations: str) -> frozenset[str]:
    """All names of these operations."""
    return frozenset(operations).union(name for name, same in fact_values("alias").items() if same in operations)


def in_place(operations: Set[str]) -> frozenset[str]:
    """The in-place tensor methods of `operations`."""
    return frozenset(f"{name}_" for name in operations if "i" in OPERATIONS.get(name, ""))


def operations_with_form(form: str) -> frozenset[str]:
    """The operations that have this form."""
    return frozenset(name for name, forms in OPERATIONS.items() if form in forms)

#include "nn/layers.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "nn/model_options.h"

namespace stowage {

namespace {

// An error message, or "" if x has a last axis of features.
std::string WrongFeatures(std::string_view op, const Value& x,
                          std::string_view name, int min_rank) {
  if (x.rank() >= min_rank && IsFloat(x.dtype())) return "";
  return StrCat("[", op, "] the input of ", Quoted(name), ", ",
                Quoted(x.builder()->info(x).name), ", is ", x.type().ToString(),
                "; expected a float tensor of rank ", min_rank, " or more");
}

// The linear layers around attention.
struct Projections {
  std::string_view in, out;        // what their names end in
  Init init = Init::Normal(0.02);  // of the one behind
};

// `cache` may be null.

Value SelfAttention(Value x, std::string_view name,
                    const MultiHeadAttentionOptions& options,
                    const Projections& projections, KvCache* cache,
                    SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  if (const std::string wrong = WrongFeatures("attention", x, name, 3);
      !wrong.empty()) {
    return g.Fail(wrong, loc);
  }
  if (x.rank() > 3) {
    return g.Fail(
        StrCat("[attention] the input of ", Quoted(name), " is ",
               x.type().ToString(), "; expected (batch, time, width)"),
        loc);
  }
  const int64_t batch = x.dim(0), time = x.dim(1), width = x.dim(2);
  const int64_t heads = options.heads;
  if (heads < 1 || width % heads != 0) {
    return g.Fail(
        StrCat("[attention] ", Quoted(name), " has ", heads,
               " heads over a width of ", width,
               "; the width must be a positive multiple of the heads"),
        loc);
  }
  const int64_t groups = options.groups == 0 ? heads : options.groups;
  if (groups < 1 || heads % groups != 0) {
    return g.Fail(
        StrCat("[attention] ", Quoted(name), " has ", heads, " heads in ",
               groups,
               " groups; the heads must be a positive multiple of the groups"),
        loc);
  }
  const int64_t depth = width / heads;
  const Value qkv = Linear(x, StrCat(name, projections.in),
                           width + 2 * groups * depth, {}, loc);
  std::vector<Value> parts =
      Split(qkv, -1, {width, groups * depth, groups * depth}, loc);
  const auto by_head = [&](Value part, int64_t count) {
    return Reshape(part, {batch, time, count, depth}, loc);
  };
  const Value q = by_head(parts[0], heads);
  const Value k = by_head(parts[1], groups);
  const Value v = by_head(parts[2], groups);
  const Value attended = cache ? cache->Attend(q, k, v, name, {}, loc)
                               : Attention(q, k, v,
                                           {.causal = options.causal,
                                            .segments = options.segments,
                                            .bias = options.bias},
                                           loc);
  const Value joined =
      Reshape(g.Name(StrCat(name, ".attention"), attended, loc),
              {batch, time, width}, loc);
  return Linear(joined, StrCat(name, projections.out), width,
                {.bias = true, .init = projections.init}, loc);
}

// Returns whether x has 1 to 3 spatial dimensions and the kernel a size for each; records an
// error otherwise.
bool CheckConvInput(Value x, std::string_view op, std::string_view name,
                    const Axes& kernel, SourceLoc loc) {
  GraphBuilder& g = *x.builder();
  const int spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 3 || !IsFloat(x.dtype())) {
    g.Fail(StrCat("[", op, "] the input of ", Quoted(name), ", ",
                  Quoted(g.info(x).name), ", is ", x.type().ToString(),
                  "; expected a float tensor (N, C, spatial...) with 1 to 3 "
                  "spatial dimensions"),
           loc);
    return false;
  }
  if (static_cast<int>(kernel.size()) != spatial) {
    g.Fail(StrCat("[", op, "] the kernel of ", Quoted(name), " has ",
                  kernel.size(), " sizes; its input ", Quoted(g.info(x).name),
                  " has ", spatial, " spatial dimensions"),
           loc);
    return false;
  }
  return true;
}

// Adds the layer's bias, if any, to y (N, channels, ...), and names the result.
Value FinishConv(Value y, std::string_view name, std::string_view op, bool bias,
                 SourceLoc loc) {
  if (!y.ok()) return y;
  GraphBuilder& g = *y.builder();
  if (bias) {
    y = g.Name(StrCat(name, ".", op), y, loc);
    const int64_t channels = y.dim(1);
    const Value b = g.Param(StrCat(name, ".bias"), y.dtype(), {channels},
                            Init::Zeros(), loc);
    Shape per_channel = {channels};
    while (per_channel.rank() < y.rank() - 1) per_channel.push_back(1);
    y = Add(y, Reshape(b, per_channel, loc), loc);
  }
  return g.Name(name, y, loc);
}

}  // namespace

Value Linear(Value x, std::string_view name, int64_t out_features,
             const LinearOptions& options, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  if (const std::string wrong = WrongFeatures("linear", x, name, 1);
      !wrong.empty()) {
    return g.Fail(wrong, loc);
  }
  const int64_t in_features = x.shape().back();
  const Value weight =
      g.Param(StrCat(name, ".weight"), x.dtype(),
              options.out_in ? Shape{out_features, in_features}
                             : Shape{in_features, out_features},
              options.init, loc);
  Value y = MatMul(x, weight, false, options.out_in, loc);
  if (options.bias) {
    y = g.Name(StrCat(name, ".matmul"), y, loc);
    const Value bias = g.Param(StrCat(name, ".bias"), x.dtype(), {out_features},
                               Init::Zeros(), loc);
    y = Add(y, bias, loc);
  }
  return g.Name(name, y, loc);
}

Value LayerNorm(Value x, std::string_view name, double eps, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  if (const std::string wrong = WrongFeatures("layer_norm", x, name, 1);
      !wrong.empty()) {
    return g.Fail(wrong, loc);
  }
  const Shape features{x.shape().back()};
  const Value gamma =
      g.Param(StrCat(name, ".weight"), x.dtype(), features, Init::Ones(), loc);
  const Value beta =
      g.Param(StrCat(name, ".bias"), x.dtype(), features, Init::Zeros(), loc);
  return g.Name(name, LayerNorm(x, gamma, beta, eps, loc), loc);
}

Value Conv(Value x, std::string_view name, int64_t channels,
           const ConvLayerOptions& options, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  const Axes kernel = options.kernel.For(x.rank() - 2);
  if (!CheckConvInput(x, "conv", name, kernel, loc)) return {};
  const int64_t groups = options.groups;
  if (channels < 1 || groups < 1 || x.dim(1) % groups != 0 ||
      channels % groups != 0) {
    return g.Fail(StrCat("[conv] ", Quoted(name), " makes ", channels,
                         " channels of ", x.dim(1), " in ", groups,
                         " groups; both must be whole multiples of the groups"),
                  loc);
  }
  Shape shape = {channels, x.dim(1) / groups};
  int64_t fan_out = channels / groups;
  for (const int64_t size : kernel) {
    shape.push_back(size);
    fan_out *= size;
  }
  const Value weight =
      g.Param(StrCat(name, ".weight"), x.dtype(), shape,
              options.init.value_or(KaimingNormal(fan_out)), loc);
  const Value y = Conv(x, weight,
                       {.stride = options.stride,
                        .padding = options.padding,
                        .dilation = options.dilation,
                        .groups = groups},
                       loc);
  return FinishConv(y, name, "conv", options.bias, loc);
}

Value ConvTranspose(Value x, std::string_view name, int64_t channels,
                    const ConvTransposeLayerOptions& options, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  const Axes kernel = options.kernel.For(x.rank() - 2);
  if (!CheckConvInput(x, "conv_transpose", name, kernel, loc)) return {};
  if (channels < 1) {
    return g.Fail(StrCat("[conv_transpose] ", Quoted(name), " makes ", channels,
                         " channels; expected at least 1"),
                  loc);
  }
  Shape shape = {x.dim(1), channels};
  auto fan_in = static_cast<double>(x.dim(1));
  for (const int64_t size : kernel) {
    shape.push_back(size);
    fan_in *= static_cast<double>(size);
  }
  for (const int64_t stride : options.stride.For(x.rank() - 2)) {
    fan_in /= static_cast<double>(stride);
  }
  const Value weight =
      g.Param(StrCat(name, ".weight"), x.dtype(), shape,
              Init::Normal(kReluGain / std::sqrt(fan_in)), loc);
  const Value y = ConvTranspose(x, weight, {.stride = options.stride}, loc);
  return FinishConv(y, name, "conv_transpose", options.bias, loc);
}

Value BatchNorm(Value x, std::string_view name, const BatchNormOptions& options,
                SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  if (const std::string wrong = WrongFeatures("batch_norm", x, name, 2);
      !wrong.empty()) {
    return g.Fail(wrong, loc);
  }
  const int64_t channels = x.dim(1);
  const DType statistics = x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  const Value gamma = g.Param(StrCat(name, ".weight"), x.dtype(), {channels},
                              Init::Ones(), loc);
  const Value beta =
      g.Param(StrCat(name, ".bias"), x.dtype(), {channels}, Init::Zeros(), loc);
  const Value mean = g.State(StrCat(name, ".running_mean"), statistics,
                             {channels}, Init::Zeros(), loc);
  const Value variance = g.State(StrCat(name, ".running_var"), statistics,
                                 {channels}, Init::Ones(), loc);
  if (options.training) {
    const BatchNormResults r = BatchNorm(x, gamma, beta, options.eps, loc);
    if (!r.y.ok()) return r.y;
    const auto count = static_cast<double>(x.shape().num_elements() / channels);
    const Value momentum = Fill(g, options.momentum, statistics, {}, loc);
    LerpUpdate(mean, r.mean, momentum, loc);
    LerpUpdate(variance, MulScalar(r.variance, count / (count - 1), loc),
               momentum, loc);
    return g.Name(name, r.y, loc);
  }
  // y = x scale + shift, per channel.
  Shape per_channel = {channels};
  while (per_channel.rank() < x.rank() - 1) per_channel.push_back(1);
  const Value rstd = Rsqrt(AddScalar(variance, options.eps, loc), loc);
  const Value scale = Mul(Cast(gamma, statistics, loc), rstd, loc);
  const Value shift =
      Sub(Cast(beta, statistics, loc), Mul(mean, scale, loc), loc);
  const auto spread = [&](Value v) {
    return Reshape(Cast(v, x.dtype(), loc), per_channel, loc);
  };
  return g.Name(name, Add(Mul(x, spread(scale), loc), spread(shift), loc), loc);
}

EmbeddingResults Embedding(Value indices, std::string_view name, int64_t rows,
                           int64_t width, DType dtype, SourceLoc loc) {
  if (!indices.ok()) return {indices, indices};
  GraphBuilder& g = *indices.builder();
  const Value table =
      g.Param(name, dtype, {rows, width}, Init::Normal(0.02), loc);
  const Value gathered = Gather(table, indices, loc);
  return {g.Name(StrCat(name, ".rows"), gathered, loc), table};
}

Value Dropouts::Apply(Value x, SourceLoc loc) { return ApplyAt(p_, x, loc); }

Value Dropouts::ApplyAt(double rate, Value x, SourceLoc loc) {
  if (rate == 0) return x;
  return Dropout(x, seed_, step_, rate, next_id_++, loc);
}

Value CausalSelfAttention(Value x, std::string_view name,
                          const TransformerOptions& options, SourceLoc loc) {
  const Value y = SelfAttention(
      x, name,
      {.heads = options.heads, .causal = true, .segments = options.segments},
      {.in = ".c_attn", .out = ".c_proj", .init = options.projection_init},
      options.cache, loc);
  return options.dropouts && y.ok() ? options.dropouts->Apply(y, loc) : y;
}

Value MultiHeadAttention(Value x, std::string_view name,
                         const MultiHeadAttentionOptions& options,
                         SourceLoc loc) {
  return SelfAttention(x, name, options, {.in = ".in_proj", .out = ".out_proj"},
                       /*cache=*/nullptr, loc);
}

Value TransformerBlock(Value x, std::string_view name,
                       const TransformerOptions& options, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  const Value attention =
      CausalSelfAttention(LayerNorm(x, StrCat(name, ".ln_1"), 1e-5, loc),
                          StrCat(name, ".attn"), options, loc);
  if (!attention.ok()) return attention;
  const Value h =
      g.Name(StrCat(name, ".attn.residual"), Add(x, attention, loc), loc);
  if (!h.ok()) return h;
  const int64_t width = h.shape().back();
  const Value wide = Linear(LayerNorm(h, StrCat(name, ".ln_2"), 1e-5, loc),
                            StrCat(name, ".mlp.c_fc"), 4 * width, {}, loc);
  const Value bent =
      g.Name(StrCat(name, ".mlp.gelu"), GeluTanh(wide, loc), loc);
  Value y = Linear(bent, StrCat(name, ".mlp.c_proj"), width,
                   {.bias = true, .init = options.projection_init}, loc);
  if (options.dropouts) y = options.dropouts->Apply(y, loc);
  return g.Name(name, Add(h, y, loc), loc);
}

Value GatedMlp(Value x, std::string_view name, int64_t hidden,
               const GatedMlpOptions& options, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  const LinearOptions wide = {
      .bias = options.bias, .init = options.init, .out_in = options.out_in};
  std::vector<Value> factors;
  if (options.side_by_side) {
    const Value both =
        Linear(x, StrCat(name, ".gate_up_proj"), 2 * hidden, wide, loc);
    factors = Split(both, -1, {hidden, hidden}, loc);
  } else {
    factors = {Linear(x, StrCat(name, ".gate_proj"), hidden, wide, loc),
               Linear(x, StrCat(name, ".up_proj"), hidden, wide, loc)};
  }
  const Value gated =
      g.Name(StrCat(name, ".gated"),
             Glu(factors[0], factors[1], options.activation, loc), loc);
  if (!gated.ok()) return gated;
  return Linear(gated, StrCat(name, ".down_proj"), x.shape().back(),
                {.bias = options.bias,
                 .init = options.down_init,
                 .out_in = options.out_in},
                loc);
}

namespace {

// Records an error and returns false unless x is a float tensor of at least `rank` dimensions.
bool TakesFeatures(std::string_view op, Value x, std::string_view name,
                   int rank, SourceLoc loc) {
  if (x.rank() >= rank && IsFloat(x.dtype())) return true;
  x.builder()->Fail(
      StrCat("[", op, "] the input of ", Quoted(name), ", ",
             Quoted(x.builder()->info(x).name), ", is ", x.type().ToString(),
             "; expected a float tensor of rank ", rank, " or more"),
      loc);
  return false;
}

struct Affine {
  Value weight, bias;  // (C)
};
Affine AffineParams(Value x, std::string_view name, SourceLoc loc) {
  GraphBuilder& g = *x.builder();
  const Shape channels = {x.dim(1)};
  return {
      g.Param(StrCat(name, ".weight"), x.dtype(), channels, Init::Ones(), loc),
      g.Param(StrCat(name, ".bias"), x.dtype(), channels, Init::Zeros(), loc)};
}

// Normalizes `count` groups of x as the channels of one example by a batch norm, which saves
// x and two numbers per channel.
Value NormalizeChannels(Value x, int64_t count, Value gamma, Value beta,
                        double eps, SourceLoc loc) {
  const Value rows =
      Reshape(x, {1, count, x.shape().num_elements() / count}, loc);
  return Reshape(BatchNorm(rows, gamma, beta, eps, loc).y, x.shape(), loc);
}

}  // namespace

Value RmsNorm(Value x, std::string_view name, double eps, SourceLoc loc) {
  if (!x.ok() || !TakesFeatures("rms_norm", x, name, 1, loc)) return Value();
  GraphBuilder& g = *x.builder();
  const Value gamma = g.Param(StrCat(name, ".weight"), x.dtype(),
                              {x.shape().back()}, Init::Ones(), loc);
  return g.Name(name, RmsNorm(x, gamma, eps, loc), loc);
}

Value GroupNorm(Value x, std::string_view name, int64_t groups, double eps,
                SourceLoc loc) {
  if (!x.ok() || !TakesFeatures("group_norm", x, name, 2, loc)) return Value();
  GraphBuilder& g = *x.builder();
  const int64_t channels = x.dim(1);
  if (groups < 1 || channels % groups != 0) {
    return g.Fail(
        StrCat("[group_norm] ", Quoted(name), " has ", groups, " groups over ",
               channels, " channels of ", Quoted(g.info(x).name),
               "; the channels must be a positive multiple of the "
               "groups"),
        loc);
  }
  const auto [weight, bias] = AffineParams(x, name, loc);
  const int64_t count = x.dim(0) * groups;
  const Value normal =
      NormalizeChannels(x, count, Fill(g, 1, x.dtype(), {count}, loc),
                        Fill(g, 0, x.dtype(), {count}, loc), eps, loc);
  Shape per_channel = {channels};
  while (per_channel.rank() < x.rank() - 1) per_channel.push_back(1);
  return g.Name(name,
                Add(Mul(normal, Reshape(weight, per_channel, loc), loc),
                    Reshape(bias, per_channel, loc), loc),
                loc);
}

Value InstanceNorm(Value x, std::string_view name,
                   const InstanceNormOptions& options, SourceLoc loc) {
  if (!x.ok() || !TakesFeatures("instance_norm", x, name, 3, loc)) {
    return Value();
  }
  GraphBuilder& g = *x.builder();
  const int64_t channels = x.dim(1);
  const int64_t count = x.dim(0) * channels;
  Affine affine;
  if (options.affine) {
    affine = AffineParams(x, name, loc);
    for (Value* param : {&affine.weight, &affine.bias}) {
      *param =
          Reshape(BroadcastTo(*param, {x.dim(0), channels}, loc), {count}, loc);
    }
  } else {
    affine = {Fill(g, 1, x.dtype(), {count}, loc),
              Fill(g, 0, x.dtype(), {count}, loc)};
  }
  return g.Name(
      name,
      NormalizeChannels(x, count, affine.weight, affine.bias, options.eps, loc),
      loc);
}

KvCache::KvCache(GraphBuilder& g, int64_t batch, int64_t count,
                 int64_t positions, SourceLoc loc)
    : g_(g), batch_(batch), count_(count), positions_(positions) {
  position_ = g.Input("position", DType::kI32, {}, loc);
  token_positions_ =
      g.Name("token_positions",
             Add(Iota(g, DType::kI32, 0, 1, count, loc), position_, loc), loc);
  lengths_ =
      g.Name("text_lengths",
             Add(Fill(g, static_cast<double>(count), DType::kI32, {batch}, loc),
                 position_, loc),
             loc);
}

Value KvCache::Keep(Value now, std::string_view name, SourceLoc loc) {
  if (!now.ok()) return now;
  const Value before = g_.Cache(
      name, now.dtype(), {batch_, positions_, now.dim(2), now.dim(3)}, loc);
  return SliceUpdate(before, now, 1, position_, loc);
}

Value KvCache::Mask(DType dtype, int64_t window, SourceLoc loc) {
  Value& made = masks_[window];
  if (made.ok() && made.dtype() == dtype) return made;
  const Value query = Reshape(token_positions_, {count_, 1}, loc);
  const Value key = Iota(g_, DType::kI32, 0, 1, positions_, loc);
  Value sees = LessEqual(key, query, loc);
  if (window > 0) {
    const Value before =
        Sub(query, Fill(g_, static_cast<double>(window), DType::kI32, {}, loc),
            loc);
    sees = LogicalAnd(sees, Greater(key, before, loc), loc);
  }
  const double never = -std::numeric_limits<double>::infinity();
  const Value mask = Where(sees, Fill(g_, 0, dtype, {}, loc),
                           Fill(g_, never, dtype, {}, loc), loc);
  made = Reshape(mask, {1, 1, count_, positions_}, loc);
  return made;
}

Value KvCache::Attend(Value q, Value k, Value v, std::string_view name,
                      const AttentionOptions& options, SourceLoc loc) {
  if (!q.ok()) return q;
  for (const Value& part : {k, v}) {
    if (!part.ok() || part.rank() == 4) continue;
    return g_.Fail(
        StrCat("[kv_cache] the keys and values of ", Quoted(name), " are ",
               k.type().ToString(), " and ", v.type().ToString(),
               "; expected (batch, tokens, groups, elements)"),
        loc);
  }
  const Value keys = Keep(k, StrCat(name, ".keys"), loc);
  const Value values = Keep(v, StrCat(name, ".values"), loc);
  AttentionOptions cached{.scale = options.scale,
                          .key_lengths = lengths_,
                          .softcap = options.softcap};
  // A single token that attends to all earlier ones needs no mask.
  const int64_t window = options.window >= positions_ ? 0 : options.window;
  if (count_ > 1 || window > 0) cached.bias = Mask(q.dtype(), window, loc);
  return Attention(q, keys, values, cached, loc);
}

namespace {

constexpr std::string_view kOfExperts = ".experts.";

// The experts selected for each of N tokens, (N, per_token).
struct Choice {
  Value weights, experts;
};

// The router computes in at least 32 bits, as in other implementations.
Value InF32(Value x) {
  return x.ok() && SizeOf(x.dtype()) < SizeOf(DType::kF32)
             ? Cast(x, DType::kF32)
             : x;
}

Choice Choose(Value rows, std::string_view name,
              const ExpertsOptions& options) {
  const Value logits =
      Linear(rows, StrCat(name, ".gate"), options.count,
             {.bias = false, .init = options.init, .out_in = true});
  const TopKResults top = TopK(Softmax(InF32(logits)), options.per_token);
  if (!options.normalized) return {top.values, top.indices};
  const Value sums = ReduceSum(top.values, {-1}, /*keep=*/true);
  return {Div(top.values, sums), top.indices};
}

// The selections sorted by expert: S = N * per_token rows.
struct Groups {
  Value order;   // i32 (S), of the choices
  Value tokens;  // i32 (S), that made them
  Value ends;    // i32 (count), of each expert's rows
};

Groups SortByExpert(Value experts, int64_t count) {
  GraphBuilder& g = *experts.builder();
  const int64_t tokens = experts.dim(0), per_token = experts.dim(1);
  const Value choices = Reshape(experts, {tokens * per_token});
  const Value order = Sort(choices).indices;
  const Value numbers =
      Reshape(Iota(g, DType::kI32, 0, 1, tokens), {tokens, 1});
  const Value of_choices =
      Reshape(BroadcastTo(numbers, {tokens, per_token}), {tokens * per_token});
  const Value counts = ReduceSum(OneHot(choices, count, DType::kI32), {0});
  return {order, Gather(of_choices, order), CumSum(counts, 0)};
}

}  // namespace

Value Experts(Value x, std::string_view name, const ExpertsOptions& options) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  const int64_t width = x.shape().back();
  const int64_t tokens = x.shape().num_elements() / width;
  const Value rows = Reshape(x, {tokens, width});
  const Choice choice = Choose(rows, name, options);
  if (!choice.experts.ok()) return choice.experts;
  const Groups groups = SortByExpert(choice.experts, options.count);
  const auto matrices = [&](std::string_view matrix, int64_t out, int64_t in,
                            const Init& init) {
    return g.Param(StrCat(name, kOfExperts, matrix, ".weight"), x.dtype(),
                   {options.count, out, in}, init);
  };
  const int64_t hidden = options.hidden;
  const Value gate = matrices(options.gate, hidden, width, options.init);
  const Value up = matrices(options.up, hidden, width, options.init);
  const Value down = matrices(options.down, width, hidden, options.down_init);
  const Value chosen = Gather(rows, groups.tokens);
  const Value gated =
      Glu(GroupedMatMul(chosen, gate, groups.ends, true),
          GroupedMatMul(chosen, up, groups.ends, true), options.activation);
  const Value outputs = GroupedMatMul(gated, down, groups.ends, true);
  const int64_t choices = tokens * options.per_token;
  const Value weights =
      Gather(Reshape(choice.weights, {choices}), groups.order);
  const Value weighted =
      Mul(outputs, Cast(Reshape(weights, {choices, 1}), x.dtype()));
  Value y = ScatterAdd(Fill(g, 0, x.dtype(), {tokens, width}), groups.tokens,
                       weighted);
  if (options.shared_hidden > 0) {
    const Value shared =
        GatedMlp(rows, StrCat(name, ".shared_expert"), options.shared_hidden,
                 {.activation = options.activation,
                  .init = options.init,
                  .down_init = options.down_init,
                  .out_in = true});
    const Value part =
        Linear(rows, StrCat(name, ".shared_expert_gate"), 1,
               {.bias = false, .init = options.init, .out_in = true});
    y = Add(y, Mul(shared, Sigmoid(part)));
  }
  return Reshape(y, x.shape());
}

std::string NameOfExpert(std::string_view param, int64_t expert) {
  const size_t at = param.find(kOfExperts);
  STOWAGE_CHECK(at != param.npos);
  const size_t end = at + kOfExperts.size();
  return StrCat(param.substr(0, end), expert, ".", param.substr(end));
}

bool IsOfExperts(std::string_view param) {
  return param.find(kOfExperts) != param.npos;
}

int64_t ExpertsParameterCount(const ExpertsOptions& options, int64_t width) {
  const int64_t chosen = options.count * (3 * options.hidden + 1);
  const int64_t shared =
      options.shared_hidden > 0 ? 3 * options.shared_hidden + 1 : 0;
  return width * (chosen + shared);
}

}  // namespace stowage

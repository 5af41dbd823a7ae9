#include "nn/experts.h"

#include "base/result.h"
#include "base/strings.h"
#include "nn/layers.h"

namespace stowage {
namespace {

constexpr std::string_view kOfExperts = ".experts.";

// The experts that a router chooses for each of N tokens, (N, per_token).
struct Choice {
  Value weights, experts;
};

// Floats of at least 32 bits: other routers round probabilities to no fewer.
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

// The choices sorted by expert: S = N * per_token rows.
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

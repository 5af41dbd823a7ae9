#include "autodiff/update_rule.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/result.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"

namespace stowage {

namespace {

// Whether a node from `first` on overwrites `param`.
bool IsWritten(const Graph& graph, ValueId param, NodeId first) {
  for (NodeId id = first; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    for (int r = 0; r < GetOpDef(node.op).updates; ++r) {
      if (node.inputs[static_cast<size_t>(r)] == param) return true;
    }
  }
  return false;
}

// The first node from `first` on that writes in place and is not one of `known`;
// kNoNode: there is none.
NodeId FindOtherWriter(const Graph& graph, const std::vector<NodeId>& known,
                       NodeId first) {
  for (NodeId id = first; id < graph.num_nodes(); ++id) {
    const bool writes = GetOpDef(graph.node(id).op).updates > 0;
    if (writes && std::ranges::find(known, id) == known.end()) return id;
  }
  return kNoNode;
}

}  // namespace

ParamUpdate::ParamUpdate(Value of, Value delta, Value by)
    : param(JoinWeight(of, delta)), gradient(by), leaf_(of), delta_(delta) {}

Value ParamUpdate::State(std::string_view suffix, Init init) {
  return State(suffix, TensorType(param.type()), init);
}

Value ParamUpdate::State(std::string_view suffix, const TensorType& type,
                         Init init) {
  if (!param.ok()) return Value();
  GraphBuilder& g = *leaf_.builder();
  const std::string name = StrCat(g.info(leaf_).name, ".", suffix);
  return g.State(name, type.dtype, type.shape, init);
}

Value ParamUpdate::Set(Value target, Value content) {
  if (!target.ok() || !content.ok()) return Value();
  if (good.builder() != nullptr) {
    content = Where(BroadcastTo(good, content.shape()), content, target);
  }
  const bool is_param = target.id() == param.id();
  const bool is_split = is_param && delta_.builder() != nullptr;
  const Value written = is_split ? SplitUpdate(leaf_, delta_, content).w
                                 : Assign(target, content);
  Note(written, is_param ? leaf_ : target);
  return written;
}

Value ParamUpdate::Lerp(Value state, Value x, Value weight) {
  if (!state.ok() || !weight.ok()) return Value();
  if (good.builder() != nullptr) {
    const Value never =
        Fill(*state.builder(), std::numeric_limits<double>::infinity(),
             weight.dtype(), weight.shape());
    weight = Where(BroadcastTo(good, weight.shape()), weight, never);
  }
  const Value written = LerpUpdate(state, x, weight);
  Note(written, state);
  return written;
}

// Records `written` as the new content of `leaf`.
void ParamUpdate::Note(Value written, Value leaf) {
  if (!written.ok()) return;
  GraphBuilder& g = *written.builder();
  writers_.push_back(g.info(written).producer);
  const std::string name = StrCat("new:", g.info(leaf).name);
  if (!g.Find(name)) g.Name(name, written);
}

Value ParamUpdate::LearningRate() const { return Cast(lr, param.dtype()); }

Status CheckUpdateRule(const UpdateRule& rule) {
  if (rule.name.empty())
    return InvalidArgumentError("[optimizer] an update rule has no name");
  if (!rule.update) {
    return InvalidArgumentError("[optimizer] update rule ", Quoted(rule.name),
                                " has no function");
  }
  const auto check = [&](std::string_view what, double value) -> Status {
    if (value >= 0 && std::isfinite(value)) return {};
    return InvalidArgumentError("[optimizer] ", what, " of update rule ",
                                Quoted(rule.name), " is ", value,
                                "; expected a finite number of at least 0");
  };
  STOWAGE_RETURN_IF_ERROR(check("the learning rate", rule.learning_rate));
  return check("the decay", rule.decay);
}

void EmitUpdate(const UpdateRule& rule, ParamUpdate& update) {
  if (!update.param.ok()) return;
  GraphBuilder& g = *update.param.builder();
  const NodeId first = g.graph().num_nodes();
  rule.update(update);
  if (g.error()) return;
  const std::string& param = g.info(update.leaf_).name;
  if (!IsWritten(g.graph(), update.leaf_.id(), first)) {
    g.Fail(InvalidArgumentError(
        "[optimizer] update rule ", Quoted(rule.name),
        " does not write the param ", Quoted(param),
        "; call Set(update.param, ...), or freeze the param by a "
        "group"));
    return;
  }
  if (update.good.builder() == nullptr) return;
  const NodeId other = FindOtherWriter(g.graph(), update.writers_, first);
  if (other == kNoNode) return;
  g.Fail(Error{
      ErrorCode::kUnsupported,
      StrCat("[optimizer] update rule ", Quoted(rule.name), " writes by ",
             OpName(g.graph().node(other).op), " for the param ", Quoted(param),
             ", which a step with loss scaling cannot skip; expected "
             "Set and Lerp alone, or a step without loss scaling")});
}

bool UpdatesType(const ParamUpdate& u, std::string_view name) {
  const DType dtype = u.param.dtype();
  if (dtype == DType::kF32 || dtype == DType::kF64) return true;
  GraphBuilder& g = *u.param.builder();
  g.Fail(Error{
      ErrorCode::kInvalidArgument,
      StrCat("[optimizer] ", name, " updates params in f32, bf16 or f64; ",
             Quoted(g.info(u.param).name), " is ", u.param.type().ToString())});
  return false;
}

namespace {

// A number in the param's type.
Value Number(const ParamUpdate& u, double number) {
  return Fill(*u.param.builder(), number, u.param.dtype(), {});
}

// w (1 - lr decay), if decay is not 0.
Value Decayed(const ParamUpdate& u, Value lr) {
  if (u.decay == 0) return u.param;
  const Value kept = AddScalar(MulScalar(lr, -u.decay), 1);
  return Mul(u.param, kept);
}

// A param that is a matrix, or counts as one.
struct Matrix {
  explicit Matrix(const Shape& shape)
      : rows(shape[0]), columns(shape.num_elements() / shape[0]) {}

  int64_t rows, columns;
};

bool IsMatrix(const Shape& shape) {
  return shape.rank() >= 2 && shape.num_elements() > 0;
}

Value RootMeanSquare(Value x) {
  const auto size = static_cast<double>(x.ok() ? x.shape().num_elements() : 1);
  return Sqrt(MulScalar(SumSquares(x), 1 / size));
}

void UpdateLion(const Lion& lion, ParamUpdate& u) {
  if (!UpdatesType(u, "lion")) return;
  const Value lr = u.LearningRate();
  const Value m = u.State("m");
  const Value mixed =
      Add(MulScalar(m, lion.beta1), MulScalar(u.gradient, 1 - lion.beta1));
  const Value change = Mul(Sign(mixed), lr);
  u.Set(u.param, Sub(Decayed(u, lr), change));
  u.Lerp(m, u.gradient, Number(u, 1 - lion.beta2));
}

void UpdateAdafactor(const Adafactor& adafactor, ParamUpdate& u) {
  if (!UpdatesType(u, "adafactor")) return;
  const DType dtype = u.param.dtype();
  const double eps1 = adafactor.eps1 > 0 ? adafactor.eps1
                      : dtype == DType::kF64
                          ? std::numeric_limits<double>::epsilon()
                          : std::numeric_limits<float>::epsilon();
  const Value step = Cast(u.step, dtype);
  const Value weight = Exp(MulScalar(Log(step), adafactor.beta2_decay));
  const Value lr = u.LearningRate();
  const Shape shape = u.param.shape();  // a copy: the graph grows

  Value v, g = u.gradient;
  if (IsMatrix(shape)) {
    if (!adafactor.by_last_axes) {
      const Matrix matrix(shape);
      g = Reshape(g, {matrix.rows, matrix.columns});
    }
    const int column = g.rank() - 1, row = g.rank() - 2;
    const Value squares = Square(g);
    const auto move = [&](std::string_view suffix, int reduced) {
      const Value mean = ReduceMean(squares, {reduced}, /*keep=*/true);
      return u.Lerp(u.State(suffix, {dtype, mean.shape()}), mean, weight);
    };
    const Value rows = move("row_var", column);
    const Value columns = move("col_var", row);
    const Value mean = adafactor.by_last_axes
                           ? ReduceMean(rows, {row}, /*keep=*/true)
                           : ReduceMean(rows);
    v = Mul(Div(rows, Maximum(mean, Number(u, eps1))), columns);
  } else {
    v = u.Lerp(u.State("v"), Square(g), weight);
  }
  const Value change = Mul(Rsqrt(Maximum(v, Number(u, eps1 * eps1))), g);

  const Value size =
      Maximum(RootMeanSquare(u.param), Number(u, adafactor.eps2));
  const Value rate = Minimum(lr, Rsqrt(step));
  const Value excess = Maximum(
      MulScalar(RootMeanSquare(change), 1 / adafactor.clip), Number(u, 1));
  const Value scaled = Mul(change, Div(Mul(size, rate), excess));
  u.Set(u.param, Sub(Decayed(u, lr), Reshape(scaled, shape)));
}

// Approximately the nearest matrix with orthogonal rows (or columns).
Value Orthogonal(const ParamUpdate& u, Value x, int iterations) {
  // Keller Jordan's coefficients, with the steepest slope at zero.
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  constexpr double kEps = 1e-7;
  const bool is_tall = x.dim(0) > x.dim(1);
  x = Div(x, Maximum(Sqrt(SumSquares(x)), Number(u, kEps)));
  for (int i = 0; i < iterations; ++i) {
    const Value s = MatMul(x, x, is_tall, !is_tall);
    const Value change = Add(MulScalar(s, kB), MulScalar(MatMul(s, s), kC));
    const Value product = is_tall ? MatMul(x, change) : MatMul(change, x);
    x = Add(MulScalar(x, kA), product);
  }
  return x;
}

void UpdateMuon(const Muon& muon, ParamUpdate& u) {
  if (!UpdatesType(u, "muon")) return;
  const Shape shape = u.param.shape();  // a copy: the graph grows
  const Matrix matrix(shape);
  const Value lr = u.LearningRate();
  const Value m =
      u.Lerp(u.State("momentum"), u.gradient, Number(u, 1 - muon.momentum));
  const Value mixed = Add(MulScalar(u.gradient, 1 - muon.momentum),
                          MulScalar(m, muon.momentum));
  const Value change = Orthogonal(
      u, Reshape(mixed, {matrix.rows, matrix.columns}), muon.iterations);
  const double scale =
      0.2 *
      std::sqrt(static_cast<double>(std::max(matrix.rows, matrix.columns)));
  const Value scaled = Mul(change, MulScalar(lr, scale));
  u.Set(u.param, Sub(Decayed(u, lr), Reshape(scaled, shape)));
}

}  // namespace

bool TakesMatrix(Value param) {
  if (!param.ok()) return false;
  const auto& nodes = param.builder()->graph().nodes();
  const bool is_table = std::ranges::any_of(nodes, [&](const Node& node) {
    return node.op == OpKind::kGather && node.inputs[0] == param.id();
  });
  return IsMatrix(param.shape()) && !is_table;
}

UpdateRule RuleOf(const Lion& lion) {
  return {.name = "lion",
          .update = [lion](ParamUpdate& u) { UpdateLion(lion, u); },
          .learning_rate = 1e-4,
          .decay = lion.decay,
          .splits_bf16 = true};
}

UpdateRule RuleOf(const Adafactor& adafactor) {
  return {
      .name = "adafactor",
      .update = [adafactor](ParamUpdate& u) { UpdateAdafactor(adafactor, u); },
      .learning_rate = 1e-2,
      .decay = adafactor.decay,
      .splits_bf16 = true};
}

UpdateRule RuleOf(const Muon& muon) {
  return {.name = "muon",
          .update = [muon](ParamUpdate& u) { UpdateMuon(muon, u); },
          .learning_rate = 1e-3,
          .decay = muon.decay,
          .splits_bf16 = true};
}

}  // namespace stowage

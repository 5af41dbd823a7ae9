#include "tests/support/random_control_flow.h"

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph_copy.h"
#include "ir/ops.h"
#include "tests/support/random_graph.h"

namespace stowage::testing {
namespace {

constexpr int64_t kSize = 4;  // vectors of 4 and matrices of 4 by 4

// Grows one builder's graph; bodies have makers of their own on the same numbers.
class Maker {
 public:
  Maker(Rng& rng, bool branches, int64_t iterations_of, int depth,
        GraphBuilder& g)
      : rng_(rng),
        branches_(branches),
        iterations_of_(iterations_of),
        depth_(depth),
        g_(g) {}

  void Add(Value value) {
    STOWAGE_CHECK(value.ok());
    (value.rank() == 1 ? vectors_ : matrices_).push_back(value);
  }

  void Grow(int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) AddRandom();
  }

  Value Vector() {
    return vectors_[static_cast<size_t>(
        rng_.Below(static_cast<int64_t>(vectors_.size())))];
  }
  Value Matrix() {
    if (matrices_.empty()) {
      Add(Copy(BroadcastTo(Reshape(Vector(), Shape{1, kSize}),
                           Shape{kSize, kSize})));
    }
    return matrices_[static_cast<size_t>(
        rng_.Below(static_cast<int64_t>(matrices_.size())))];
  }
  Value Like(Value value) { return value.rank() == 1 ? Vector() : Matrix(); }
  Value Any() { return rng_.Below(3) == 0 ? Matrix() : Vector(); }

 private:
  void AddRandom() {
    switch (rng_.Below(depth_ < 3 ? 12 : 8)) {
      case 0:
        return Add(Tanh(Any()));
      case 1: {
        const Value x = Any();
        return Add(Mul(x, Sigmoid(Like(x))));
      }
      case 2: {
        const Value x = Any();
        return Add(Sub(x, Like(x)));
      }
      case 3:
        return AddProduct();
      case 4: {
        const Value row = Reshape(Vector(), Shape{1, kSize});
        return Add(Reshape(MatMul(row, Matrix()), Shape{kSize}));
      }
      case 5:
        return Add(Transpose(Matrix()));
      case 6: {
        const Value x = Matrix();
        const int64_t axis = rng_.Below(2);
        const int64_t row = rng_.Below(kSize);
        return Add(Reshape(Slice(x, axis, row, row + 1), Shape{kSize}));
      }
      case 7:
        return Add(Tanh(ReduceSum(Matrix(), {0})));
      case 8:
        if (branches_) return AddCond();
        [[fallthrough]];
      default:
        return AddLoop();
    }
  }

  void AddProduct() {
    const Value a = Matrix();
    const Value b = Matrix();
    Add(Tanh(MatMul(a, b, rng_.Below(2) == 0)));
  }

  // Of `iterations` rows, each a vector.
  Value Rows(int64_t iterations) {
    if (iterations == kSize) return Matrix();
    const Shape one = {1, kSize};
    if (rng_.Below(2) == 0) {
      return BroadcastTo(Reshape(Vector(), one), Shape{iterations, kSize});
    }
    std::vector<Value> rows;
    for (int64_t i = 0; i < iterations; ++i)
      rows.push_back(Reshape(Vector(), one));
    return Concat(rows, 0);
  }

  void AddLoop() {
    const int64_t iterations = iterations_of_ * (1 + rng_.Below(4));
    LoopOperands operands;
    for (int64_t i = rng_.Below(3); i > 0; --i) {
      operands.carried.push_back(Any());
    }
    for (int64_t i = rng_.Below(3); i > 0; --i) {
      operands.sliced.push_back(Rows(iterations));
    }
    for (int64_t i = rng_.Below(3); i > 0; --i) {
      operands.whole.push_back(Any());
    }
    operands.whole.push_back(Vector());
    const auto build = [&](LoopBody& body) {
      Maker inner(rng_, branches_, iterations_of_, depth_ + 1, body.builder());
      for (size_t i = 0; i < operands.carried.size(); ++i) {
        inner.Add(body.carried(i));
      }
      for (size_t i = 0; i < operands.sliced.size(); ++i) {
        inner.Add(body.sliced(i));
      }
      for (size_t i = 0; i < operands.whole.size(); ++i) {
        inner.Add(body.whole(i));
      }
      inner.Grow(1 + rng_.Below(5));
      for (size_t i = 0; i < operands.carried.size(); ++i) {
        body.Next(i, inner.Like(body.carried(i)));
      }
      const int64_t stacked = rng_.Below(3);
      for (int64_t i = 0; i < stacked; ++i) body.Stack(inner.Vector());
      if (rng_.Below(2) == 0 || stacked == 0) body.Sum(inner.Any());
    };
    const LoopResults results =
        Loop(g_, iterations, operands, build, {.reverse = rng_.Below(2) == 0});
    for (const Value& value : results.carried) Add(Tanh(value));
    for (const Value& value : results.summed) Add(Tanh(value));
    for (const Value& value : results.stacked) {
      Add(iterations == kSize ? value : Tanh(ReduceMean(value, {0})));
    }
  }

  void AddCond() {
    // Vectors may be equal but for rounding, as are a row and the mean of copies of it; those
    // take the first branch.
    const Value margin = Fill(g_, -1.0 / 64, DType::kF32, Shape{});
    const Value a = stowage::Add(ReduceSum(Vector()), margin);
    Value index = Greater(a, ReduceSum(Vector()));
    const bool three = rng_.Below(2) == 0;
    if (three) {
      const Value other = Less(a, ReduceSum(Vector()));
      index = stowage::Add(Cast(index, DType::kI32), Cast(other, DType::kI32));
    }
    // Half of them are read by nothing else, some in part or as another shape.
    const auto operand = [&](Value value) {
      return rng_.Below(2) == 0 ? value : Tanh(value);
    };
    std::vector<Value> operands = {operand(Vector())};
    for (int i = 0; i < 2; ++i) operands.push_back(operand(Any()));
    if (rng_.Below(4) == 0) {
      operands.push_back(Reshape(operands[0], Shape{1, kSize}));
      operands.back() = Reshape(operands.back(), Shape{kSize});
    }
    if (rng_.Below(4) == 0) {
      const Value row = Slice(operand(Matrix()), 0, 1, 2);
      operands.push_back(Reshape(row, Shape{kSize}));
    }
    // Room for several values, once it is dead.
    const size_t handed = operands.size();
    const std::vector<Value> parts = {Matrix(), Matrix()};
    operands.push_back(Concat(parts, 0));
    const auto build = [&](CondBody& body) {
      Maker inner(rng_, branches_, iterations_of_, depth_ + 1, body.builder());
      for (size_t i = 0; i < handed; ++i) inner.Add(body.operand(i));
      if (rng_.Below(2) == 0) {
        inner.Add(Tanh(ReduceSum(body.operand(handed), {0})));
      }
      inner.Grow(rng_.Below(4));
      const Value vector = inner.Vector();
      return std::vector<Value>{vector, inner.Matrix()};
    };
    const std::vector<std::function<std::vector<Value>(CondBody&)>> bodies(
        three ? 3 : 2, build);
    for (const Value& value : Cond(g_, index, operands, bodies)) {
      Add(Tanh(value));
    }
  }

  Rng& rng_;
  const bool branches_;
  const int64_t iterations_of_;
  const int depth_;
  GraphBuilder& g_;
  std::vector<Value> vectors_;
  std::vector<Value> matrices_;
};

// Copies the nodes of `graph`, with the body of each loop in its place.
void CopyUnrolled(const Graph& graph, GraphCopy& copy, GraphBuilder& g);

// Appends a body to `g`; returns its outputs.
std::vector<Value> Inline(const Graph& body, const std::vector<Value>& leaves,
                          const std::string& suffix, GraphBuilder& g) {
  GraphCopy copy(body, &g, suffix);
  const std::vector<ValueId> ids = LeavesOf(body);
  for (size_t i = 0; i < ids.size(); ++i) copy.Map(ids[i], leaves[i]);
  CopyUnrolled(body, copy, g);
  std::vector<Value> outputs;
  for (const GraphOutput& output : body.outputs()) {
    outputs.push_back(copy[output.value]);
  }
  return outputs;
}

Value Row(Value x, int64_t i) {
  Dims dims;
  for (int axis = 1; axis < x.rank(); ++axis) dims.push_back(x.dim(axis));
  return Reshape(Slice(x, 0, i, i + 1), Shape(dims));
}

Value Stack(const std::vector<Value>& values) {
  std::vector<Value> rows;
  for (const Value& value : values) {
    Dims dims = {1};
    for (const int64_t dim : value.shape()) dims.push_back(dim);
    rows.push_back(Reshape(value, Shape(dims)));
  }
  return Concat(rows, 0);
}

void CopyUnrolled(const Graph& graph, GraphCopy& copy, GraphBuilder& g) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op == OpKind::kCond) {
      SubGraphs bodies;
      for (const auto& body : BodiesOf(node)) {
        bodies.push_back(std::make_shared<const Graph>(Unrolled(*body)));
      }
      copy.CopyNode(id, {{"bodies", std::move(bodies)}});
      continue;
    }
    if (node.op != OpKind::kLoop) {
      copy.CopyNode(id);
      continue;
    }
    const LoopParts loop = PartsOfLoop(node);
    std::vector<Value> handed;
    for (size_t i = 0; i < loop.carried; ++i) {
      handed.push_back(copy[node.inputs[i]]);
    }
    for (size_t i = loop.carried; i < loop.handed_on(); ++i) {
      const TensorType& type = graph.value(node.results[i]).type;
      handed.push_back(Fill(g, 0, type.dtype, type.shape));
    }
    std::vector<std::vector<Value>> stacked(
        loop.stacked, std::vector<Value>(static_cast<size_t>(loop.iterations)));
    for (int64_t iteration = 0; iteration < loop.iterations; ++iteration) {
      std::vector<Value> leaves(
          handed.begin(),
          handed.begin() + static_cast<std::ptrdiff_t>(loop.carried));
      for (size_t i = loop.carried; i < loop.operands(); ++i) {
        const Value operand = copy[node.inputs[i]];
        leaves.push_back(loop.is_sliced(i) ? Row(operand, loop.slice(iteration))
                                           : operand);
      }
      leaves.insert(leaves.end(),
                    handed.begin() + static_cast<std::ptrdiff_t>(loop.carried),
                    handed.end());
      const std::vector<Value> outputs =
          Inline(loop.body, leaves, StrCat("#", iteration), g);
      for (size_t i = 0; i < loop.handed_on(); ++i) handed[i] = outputs[i];
      for (size_t r = 0; r < loop.stacked; ++r) {
        stacked[r][static_cast<size_t>(loop.slice(iteration))] =
            outputs[loop.handed_on() + r];
      }
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      copy.Map(node.results[r], r < loop.handed_on()
                                    ? handed[r]
                                    : Stack(stacked[r - loop.handed_on()]));
    }
  }
}

}  // namespace

Graph MakeRandomControlFlow(uint64_t seed, bool branches,
                            int64_t iterations_of) {
  Rng rng(seed);
  GraphBuilder g(StrCat("control_flow_", seed));
  Maker maker(rng, branches, iterations_of, 0, g);
  maker.Add(g.Input("x", DType::kF32, Shape{kSize}));
  maker.Add(g.Input("m", DType::kF32, Shape{kSize, kSize}));
  maker.Add(g.Param("w", DType::kF32, Shape{kSize, kSize}, Init::Uniform(0.8)));
  maker.Add(g.Param("b", DType::kF32, Shape{kSize}, Init::Uniform(0.8)));
  maker.Grow(4 + rng.Below(6));
  Value loss = ReduceMean(Square(maker.Vector()));
  for (int i = 0; i < 3; ++i) {
    loss = Add(loss, ReduceMean(Square(maker.Any())));
  }
  // Every param reaches the loss.
  loss = Add(loss, ReduceMean(Square(*g.Find("w"))));
  loss = Add(loss, ReduceMean(Square(*g.Find("b"))));
  g.Output("loss", loss);
  for (int i = 0; i < 2; ++i) g.Output(StrCat("y", i), Copy(maker.Any()));
  Result<Graph> graph = g.Finish();
  STOWAGE_CHECK(graph.ok());
  return *std::move(graph);
}

Graph Unrolled(const Graph& graph) {
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  copy.DeclareLeaves();
  CopyUnrolled(graph, copy, g);
  copy.DeclareOutputs();
  Result<Graph> unrolled = g.Finish();
  STOWAGE_CHECK(unrolled.ok());
  return *std::move(unrolled);
}

}  // namespace stowage::testing

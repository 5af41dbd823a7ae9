#include "tests/support/random_graph.h"

#include <span>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"

namespace stowage::testing {

uint64_t Rng::Next() {
  uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
int64_t Rng::Below(int64_t n) {
  return static_cast<int64_t>(Next() % static_cast<uint64_t>(n));
}
double Rng::Uniform(double low, double high) {
  return low + (high - low) * static_cast<double>(Next() >> 11) * 0x1p-53;
}

namespace {

class ModelMaker {
 public:
  explicit ModelMaker(uint64_t seed)
      : rng_(seed), g_(StrCat("random_", seed)) {}

  Graph Make() {
    const int inputs = 1 + static_cast<int>(rng_.Below(2));
    for (int i = 0; i < inputs; ++i) {
      Add(g_.Input(StrCat("x", i), DType::kF32, RandomShape()));
    }
    for (int i = 0; i < 3; ++i) {
      Add(g_.Param(StrCat("w", i), DType::kF32, RandomShape(),
                   Init::Uniform(0.8)));
    }
    const int ops = 5 + static_cast<int>(rng_.Below(25));
    for (int i = 0; i < ops; ++i) AddRandomOp();

    // Half of all values, and every param, reach the loss; the rest are dead
    // ends.
    Value loss = Fill(g_, 0, DType::kF32, {});
    const size_t count = values_.size();
    for (size_t i = 0; i < count; ++i) {
      const bool is_param = g_.info(values_[i]).role == Role::kParam;
      if (!is_param && i + 1 < count && rng_.Below(2) == 0) continue;
      loss = stowage::Add(loss, ReduceMean(Square(values_[i])));
    }
    g_.Output("loss", loss);
    auto graph = g_.Finish();
    STOWAGE_CHECK(graph.ok());
    return std::move(*graph);
  }

 private:
  void Add(Value value) {
    STOWAGE_CHECK(value.ok());
    values_.push_back(value);
  }
  // Any value so far, small enough that graphs stay small.
  Value Any() {
    for (;;) {
      const Value value = values_[static_cast<size_t>(
          rng_.Below(static_cast<int64_t>(values_.size())))];
      if (value.shape().num_elements() <= 1000) return value;
    }
  }
  Shape RandomShape() {
    static constexpr int64_t kDims[] = {1, 2, 3, 4, 6};
    const int rank = 1 + static_cast<int>(rng_.Below(3));
    Dims dims;
    for (int i = 0; i < rank; ++i) dims.push_back(kDims[rng_.Below(5)]);
    return Shape(dims);
  }
  // A new param, or an old one of the same shape: tied weights.
  Value Param(const Shape& shape) {
    for (const Value& value : values_) {
      if (g_.info(value).role == Role::kParam && value.shape() == shape &&
          rng_.Below(2) == 0) {
        return value;
      }
    }
    Add(g_.Param(StrCat("p", params_++), DType::kF32, shape,
                 Init::Uniform(0.8)));
    return values_.back();
  }
  Value Indices(const Shape& shape) {
    return g_.Input(StrCat("i", indices_++), DType::kI32, shape);
  }
  Value AtLeastRank(int rank, Value x) {
    if (x.rank() >= rank) return x;
    Dims dims = Dims::Filled(rank - x.rank(), 1);
    for (const int64_t dim : x.shape()) dims.push_back(dim);
    return Reshape(x, Shape(dims));
  }

  void AddRandomOp() {
    Value x = Any();
    switch (rng_.Below(20)) {
      case 0:
        return Add(Tanh(x));
      case 1:
        return Add(Sigmoid(x));
      case 2:
        return Add(GeluTanh(x));
      case 3:
        return Add(Relu(MulScalar(x, 0.5)));
      case 4:
        return Add(Sin(Cos(x)));
      case 5:
        return Add(Tanh(stowage::Add(x, Param(Shape{x.shape().back()}))));
      case 6:
        return Add(Mul(Tanh(x), Param(x.shape())));
      case 7: {  // two uses of one value, one through a transposing view
        Value y = AtLeastRank(2, x);
        Value square = MatMul(y, y, false, true);
        return Add(Tanh(stowage::Add(square, Transpose(square))));
      }
      case 8: {
        Value y = AtLeastRank(2, x);
        const int64_t k = y.shape().back();
        return Add(Tanh(MatMul(y, Param(Shape{k, 1 + rng_.Below(5)}))));
      }
      case 9: {
        Axes order;
        for (int i = x.rank() - 1; i >= 0; --i) order.push_back(i);
        return Add(Permute(x, order));
      }
      case 10:  // needs a copy when x is a permuted view
        return Add(Reshape(x, Shape{x.shape().num_elements()}));
      case 11: {
        const int64_t axis = rng_.Below(x.rank());
        const int64_t dim = x.dim(static_cast<int>(axis));
        const int64_t start = rng_.Below(dim);
        return Add(Slice(x, axis, start, dim, 1 + rng_.Below(2)));
      }
      case 12: {
        const int64_t axis = rng_.Below(x.rank());
        const int64_t dim = x.dim(static_cast<int>(axis));
        if (dim < 2) return Add(Copy(x));
        const auto pieces = Split(x, axis, {1, dim - 1});
        Add(Tanh(pieces[1]));  // the first piece may stay a dead result
        if (rng_.Below(2) == 0) Add(pieces[0]);
        return;
      }
      case 13: {
        Value y = Tanh(x);
        const Value parts[] = {x, y};
        return Add(Concat(parts, rng_.Below(x.rank())));
      }
      case 14:
        return Add(rng_.Below(2) == 0 ? Softmax(x, rng_.Below(x.rank()))
                                      : MulScalar(LogSoftmax(x), 0.1));
      case 15: {
        const Shape c{x.shape().back()};
        return Add(Tanh(LayerNorm(x, Param(c), Param(c), 1e-2)));
      }
      case 16: {
        Value table = Param(Shape{kRandomModelVocabulary, 1 + rng_.Below(4)});
        return Add(Gather(table, Indices(Shape{2, 3})));
      }
      case 17: {  // packed q, k, v as views of one product
        const int64_t heads = 2, d = 2, t = 1 + rng_.Below(5);
        Value packed = BroadcastTo(Param(Shape{3 * heads * d}),
                                   Shape{1, t, 3 * heads * d});
        const Value x1 = g_.Input(StrCat("x", 100 + indices_++), DType::kF32,
                                  Shape{1, t, 1});
        packed = Tanh(stowage::Add(packed, x1));
        std::vector<Value> qkv =
            Split(packed, 2, {heads * d, heads * d, heads * d});
        for (Value& part : qkv) part = Reshape(part, Shape{1, t, heads, d});
        return Add(CausalAttention(qkv[0], qkv[1], qkv[2]));
      }
      case 18: {
        const Shape scalar;
        const auto leaf = [&](std::string_view name) {
          const auto found = g_.Find(name);
          return found ? *found : g_.Input(name, DType::kI64, scalar);
        };
        Value seed = leaf("seed");
        return Add(Dropout(x, seed, leaf("step"), 0.25, dropouts_++));
      }
      default: {
        const Value y = Tanh(x);
        return Add(Where(Greater(x, y), x, Mul(y, y)));
      }
    }
  }

  Rng rng_;
  GraphBuilder g_;
  std::vector<Value> values_;
  int64_t params_ = 0, indices_ = 0, dropouts_ = 0;
};

}  // namespace

Graph MakeRandomModel(uint64_t seed) { return ModelMaker(seed).Make(); }

Graph MakeRandomStep(uint64_t seed) {
  TrainOptions options;
  if (seed % 3 == 1) options.optimizer = Momentum{};
  if (seed % 3 == 2) options.optimizer = Sgd{};
  if (seed % 4 == 0) options.clip_norm = 0.5;
  if (seed % 5 == 0) options.loss_scaling = LossScaling{.growth_interval = 2};
  auto step = BuildTrainStep(MakeRandomModel(seed), "loss", options);
  STOWAGE_CHECK(step.ok());
  return *std::move(step);
}

void WriteRandomInputs(Runner& runner, uint64_t seed, int64_t step) {
  const Graph& graph = runner.graph();
  for (const ValueId id : graph.Leaves(Role::kInput)) {
    const ValueInfo& value = graph.value(id);
    const auto count = static_cast<size_t>(value.type.shape.num_elements());
    Fnv1a hash;
    hash.Update(StrCat(value.name, " ", seed, " ", step));
    Rng rng(hash.digest());
    Status written;
    if (value.name == "lr") {
      written = runner.Write("lr", 0.01f);
    } else if (value.type.dtype == DType::kI64) {
      written =
          runner.Write(value.name, value.name == "step" ? step : int64_t{9});
    } else if (value.type.dtype == DType::kI32) {
      std::vector<int32_t> data(count);
      for (int32_t& x : data) {
        x = static_cast<int32_t>(rng.Below(kRandomModelVocabulary));
      }
      written = runner.Write(value.name, data);
    } else {
      std::vector<float> data(count);
      for (float& x : data) x = static_cast<float>(rng.Uniform(-1, 1));
      written = runner.Write(value.name, data);
    }
    STOWAGE_CHECK(written.ok());
  }
}

}  // namespace stowage::testing

#include "tests/support/random_batch_model.h"

#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/composites.h"
#include "ir/control_flow.h"
#include "ir/ops.h"
#include "nn/image_nets.h"
#include "nn/layers.h"
#include "nn/losses.h"
#include "nn/recurrent.h"

namespace stowage::testing {
namespace {

// What a model hands to its loss.
struct Parts {
  GraphBuilder& g;
  DType dtype;
  int64_t batch;
  Value x, mask, labels, hidden;
  Value errors;  // (batch, time), or in another order of the same axes
  Value masks;   // as errors
};

Value Ones(Value like) {
  return Fill(*like.builder(), 1, like.dtype(), like.shape());
}

Value Scalar(Value like, double value) {
  return Fill(*like.builder(), value, like.dtype(), {});
}

// Of (batch, time, width); each example by itself.
Value Layer(Parts& p, Value h, int64_t which, const std::string& name) {
  const int64_t batch = p.batch;
  switch (which) {
    case 0:
      return Tanh(Linear(h, name, kWidth));
    case 1:
      return LayerNorm(h, name);
    case 2:  // from time to time
      return Permute(Softmax(Permute(h, {0, 2, 1})), {0, 2, 1});
    case 3:  // attention by hand
      return Add(h, MatMul(Softmax(MatMul(h, Permute(h, {0, 2, 1}))), h));
    case 4: {  // rows of all examples as one matrix
      const Value rows = Reshape(h, {batch * kTime, kWidth});
      return Reshape(Silu(Linear(rows, name, kWidth)), {batch, kTime, kWidth});
    }
    case 5: {  // time first, and its rows as one matrix
      const Value first =
          Reshape(Permute(h, {1, 0, 2}), {kTime * batch, kWidth});
      const Value rows =
          Reshape(Tanh(Linear(first, name, kWidth)), {kTime, batch, kWidth});
      return Permute(rows, {1, 0, 2});
    }
    case 6:
      return CumSum(h, 1);
    case 7: {  // two views of each example, one batch behind the other
      const Value both = Concat(std::vector{h, Neg(h)}, 0);
      const Value made = Tanh(Linear(both, name, kWidth));
      return Add(Slice(made, 0, 0, batch), Slice(made, 0, batch, 2 * batch));
    }
    case 8: {  // a loop over time
      const Value w =
          p.g.Param(name, p.dtype, {kWidth, kWidth}, Init::Normal(0.5));
      const Value start = Fill(p.g, 0, p.dtype, {batch, kWidth});
      const LoopResults run = Loop(
          p.g, kTime,
          {.carried = {start}, .sliced = {Permute(h, {1, 0, 2})}, .whole = {w}},
          [](LoopBody& body) {
            const Value next = Tanh(
                Add(MatMul(body.carried(0), body.whole(0)), body.sliced(0)));
            body.Next(0, next);
            body.Stack(next);
          });
      return Permute(run.stacked[0], {1, 0, 2});
    }
    case 9:  // by what is known of all inputs
      return Mul(
          h, BroadcastTo(Div(Sqrt(ReduceMean(Square(p.x))), ReduceSum(p.mask)),
                         h.shape()));
    case 10: {  // by the mean of each example
      const Value mean = ReduceMean(h, {1, 2}, true);
      return Sub(h, BroadcastTo(mean, h.shape()));
    }
    case 11: {  // as images of one channel
      Value c = Reshape(h, {batch, 1, kTime, kWidth});
      c = LocalResponseNorm(Conv(c, name, 2, {.padding = 1}));
      c = Pad(c, {0, 0, 0, 0}, {0, 0, 1, 1});
      c = AvgPool(MaxPool(c, {.kernel = 1}), {.kernel = 2, .stride = 1});
      return ReduceMean(Resize(c, {kTime, kWidth}), {1});
    }
    case 12: {
      const Value q = Reshape(h, {batch, kTime, 1, kWidth});
      const Value k = Rope(q);
      return Reshape(Attention(k, k, q), h.shape());
    }
    case 13:
      return RmsNorm(h, name);
    case 14:
      return Permute(GroupNorm(Permute(h, {0, 2, 1}), name, 2), {0, 2, 1});
    case 15:
      return Add(h, Gather(p.g.Param(name, p.dtype, {kClasses, kWidth},
                                     Init::Normal(0.5)),
                           p.labels));
    case 16:
      return Concat(std::vector{TopK(h, 3).values, Slice(h, 2, 0, 1)}, 2);
    case 17:
      return Lstm(h, name, kWidth).y;
    case 18:  // a branch for all examples
      return Cond(
          p.g, Greater(ReduceSum(p.mask), Scalar(p.mask, 6)), {h},
          {[](CondBody& body) { return std::vector{Relu(body.operand(0))}; },
           [](CondBody& body) {
             return std::vector{Tanh(body.operand(0))};
           }})[0];
    default: {
      const Value is_large = Greater(p.mask, MulScalar(Ones(p.mask), 0.5));
      const Value all =
          BroadcastTo(Reshape(is_large, {batch, kTime, 1}), h.shape());
      return Where(all, h, Neg(h));
    }
  }
}
constexpr int64_t kLayers = 20;

// Layers from which no micro-batch comes back.
Value MixingLayer(Parts& p, Value h, int64_t which) {
  const int64_t batch = p.batch;
  switch (which) {
    case 0:  // normalized by the batch
      return Sub(h, BroadcastTo(ReduceMean(h, {0}, true), h.shape()));
    case 1:  // sorted, so to say
      return CumSum(h, 0);
    case 2: {  // every example with every other
      const Value rows = Reshape(h, {batch, kTime * kWidth});
      const Value scores = Softmax(MatMul(rows, Transpose(rows)));
      return Reshape(MatMul(scores, rows), {batch, kTime, kWidth});
    }
    case 3:  // by the largest of all
      return Div(h, BroadcastTo(ReduceMax(Abs(h)), h.shape()));
    default:  // the first example for all
      return Sub(h, BroadcastTo(Slice(h, 0, 0, 1), h.shape()));
  }
}
constexpr int64_t kMixingLayers = 5;

Value Weight(Parts& p) {
  return p.g.Param("own", p.dtype, {kWidth}, Init::Normal(0.5));
}

Value SplitLoss(Parts& p, int64_t which) {
  const Value& e = p.errors;
  const Value& m = p.masks;
  switch (which) {
    case 0:
      return ReduceMean(e);
    case 1:
      return ReduceSum(e);
    case 2:  // a masked mean
      return Div(ReduceSum(Mul(e, m)), ReduceSum(m));
    case 3: {  // of those that count, at least one
      const Value counts = Cast(Greater(m, MulScalar(Ones(m), 0.2)), p.dtype);
      const Value sum = ReduceSum(counts);
      return Div(ReduceSum(Mul(e, counts)), Maximum(sum, Ones(sum)));
    }
    case 4:  // of each example, and then of all
      return ReduceMean(Div(ReduceSum(Mul(e, m), {1}), ReduceSum(m, {1})));
    case 5:  // the batch's size as a number
      return MulScalar(ReduceSum(e), 1.0 / static_cast<double>(p.batch));
    case 6:
      return Add(ReduceMean(e), MulScalar(ReduceSum(Square(Weight(p))), 0.1));
    case 7:  // a sum, a mean and what has no examples
      return Add(Sub(ReduceSum(e), ReduceMean(Square(e))),
                 MulScalar(ReduceSum(Square(Weight(p))), 0.1));
    case 8: {  // by standardized weights
      const Value centred = Sub(m, BroadcastTo(ReduceMean(m), m.shape()));
      const Value spread = Sqrt(ReduceMean(Square(centred)));
      return ReduceMean(Mul(e, Div(centred, BroadcastTo(spread, m.shape()))));
    }
    case 9:
      return Div(ReduceSum(Mul(e, m)), Sqrt(ReduceSum(Square(m))));
    case 10:
      return Div(ReduceSum(Mul(e, m)), ReduceMax(m));
    case 11:  // a product over the examples
      return ReduceSum(MatMul(Reshape(e, {1, p.batch * kTime}),
                              Reshape(m, {p.batch * kTime, 1})));
    case 12:  // two quotients
      return Add(Div(ReduceSum(Mul(e, m)), ReduceSum(m)),
                 Div(ReduceSum(Square(e)), MulScalar(ReduceMean(m), 3.0)));
    case 13: {
      const Value logits = Linear(p.hidden, "head", kClasses);
      return ClassCrossEntropy(logits, p.labels,
                               {.ignored_label = 2,
                                .class_weights = {1, 2, 0.5, 1, 3},
                                .label_smoothing = 0.1});
    }
    case 14: {
      const Value logits = Linear(p.hidden, "head", kClasses);
      return Neg(Div(Add(ReduceMean(e), ReduceMean(LogSoftmax(logits))),
                     AddScalar(ReduceSum(Square(Weight(p))), 1)));
    }
    case 15:
      return CrossEntropy(Linear(p.hidden, "head", kClasses), p.labels);
    default:  // what is known of the inputs alone, beside what is not
      return Add(Mul(ReduceMean(Square(p.x)), ReduceSum(e)), ReduceSum(m));
  }
}
constexpr int64_t kSplitLosses = 17;

Value MixedLoss(Parts& p, int64_t which) {
  const Value& e = p.errors;
  switch (which) {
    case 0:
      return ReduceMax(e);
    case 1:
      return Sqrt(ReduceMean(e));
    case 2:
      return LogSumExp(e);
    case 3:
      return Square(ReduceMean(e));
    case 4:
      return Div(ReduceMean(e), StopGradient(ReduceSum(e)));
    case 5:
      return Variance(e);
    case 6: {
      const Value worst = TopK(Reshape(e, {p.batch * kTime}), 2).values;
      return ReduceMean(worst);
    }
    case 7:
      return ReduceMean(Mul(e, BroadcastTo(ReduceMean(e), e.shape())));
    default:
      return Div(ReduceSum(Mul(e, p.masks)),
                 ReduceSum(Mul(p.masks, Sigmoid(e))));
  }
}
constexpr int64_t kMixedLosses = 9;

}  // namespace

Graph RandomBatchModel::Build(int64_t batch) const {
  Random random(seed);
  GraphBuilder g("model");
  const Value x = g.Input("x", dtype, {batch, kTime, kWidth});
  const Value mask = g.Input("mask", dtype, {batch, kTime});
  const Value labels = g.Input("labels", DType::kI32, {batch, kTime});
  Parts p = {g, dtype, batch, x, mask, labels, x, {}, mask};
  const bool mixes_within = !is_split && random.Coin();
  const int64_t layers = 1 + random.Below(3);
  for (int64_t i = 0; i < layers; ++i) {
    p.hidden = Layer(p, p.hidden, random.Below(kLayers), StrCat("layer", i));
  }
  // So that whatever comes before is trained.
  p.hidden = Tanh(Linear(p.hidden, "last", kWidth));
  if (mixes_within)
    p.hidden = MixingLayer(p, p.hidden, random.Below(kMixingLayers));
  p.errors = ReduceSum(Square(Sub(p.hidden, x)), {2});
  const int64_t layout = random.Below(3);
  const auto laid_out = [&](Value value) {
    if (layout == 0) return value;
    if (layout == 1) return Reshape(value, {batch * kTime, 1});
    return Reshape(Transpose(value), {1, kTime * batch});
  };
  const bool is_split_loss = is_split || mixes_within;
  const int64_t which =
      random.Below(is_split_loss ? kSplitLosses : kMixedLosses);
  if (which != 4) {  // which reads both axes
    p.errors = laid_out(p.errors);
    p.masks = laid_out(p.masks);
  }
  g.Output("loss", g.Name("loss", is_split_loss ? SplitLoss(p, which)
                                                : MixedLoss(p, which)));
  if (random.Coin()) {
    g.Output("examples", ReduceSum(p.hidden, {1, 2}));
  }
  if (random.Coin()) {
    const Value right = Less(mask, MulScalar(Ones(mask), 0.5));
    g.Output("count", ReduceSum(Cast(right, DType::kI32)));
  }
  if (random.Coin()) g.Output("largest", ReduceMax(p.hidden));
  return g.Finish().OrDie();
}

}  // namespace stowage::testing

// Recurrent layers. An LSTM is one op per direction, the others are loops over time.

#include <functional>

#include "base/strings.h"
#include "formats/array.h"
#include "ir/control_flow.h"
#include "ir/ops.h"
#include "onnx/ops.h"

namespace stowage::onnx {
namespace {

// A layer of the file: x (T, B, in), W (D, gates H, in), R (D, gates H, H), and optionally
// B (D, 2 gates H) and an initial state (D, B, H).
struct Layer {
  int64_t steps = 0, batch = 0, width = 0, hidden = 0, directions = 1;
  bool forward = true, backward = false;
  bool batch_first = false;
  Value x;  // (T, B, in)
};

Result<Layer> LayerOf(ImportedNode& node, int64_t gates,
                      const std::vector<std::string>& activations) {
  const Shape &x = node.ShapeOf(0), &w = node.ShapeOf(1), &r = node.ShapeOf(2);
  Layer layer;
  layer.batch_first = node.Int("layout", 0) != 0;
  const std::string direction = node.Text("direction", "forward");
  layer.forward = direction != "reverse";
  layer.backward = direction != "forward";
  layer.directions = direction == "bidirectional" ? 2 : 1;
  if (x.rank() != 3 || w.rank() != 3 || r.rank() != 3 ||
      w[0] != layer.directions || r[0] != layer.directions ||
      w[1] != gates * r[2] || r[1] != w[1] || w[2] != x[2]) {
    return node.Wrong(StrCat("has x ", x.ToString(), ", W ", w.ToString(),
                             " and R ", r.ToString(), " for ", layer.directions,
                             " directions; expected (T, B, "
                             "in), (directions, ",
                             gates, " H, in) and (directions, ", gates,
                             " H, H)"));
  }
  layer.hidden = r[2];
  layer.width = x[2];
  layer.steps = x[layer.batch_first ? 1 : 0];
  layer.batch = x[layer.batch_first ? 0 : 1];
  if (node.Has(4)) {
    const Array* const lengths = node.Fixed(4);
    bool whole = lengths != nullptr;
    if (lengths) {
      for (const int64_t length : IntsOf(*lengths)) {
        whole = whole && length == layer.steps;
      }
    }
    if (!whole) {
      return node.Unsupported(StrCat("has sequences of other lengths than ",
                                     layer.steps, ", the whole"));
    }
  }
  if (node.Find("clip")) {
    return node.Unsupported("clips its gates, which is not done here");
  }
  const std::vector<std::string> given = node.TextList("activations");
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != activations[i % activations.size()]) {
      return node.Unsupported(StrCat("has the activation ", Quoted(given[i]),
                                     "; expected ",
                                     activations[i % activations.size()]));
    }
  }
  layer.x = layer.batch_first ? Permute(node.In(0), {1, 0, 2}) : node.In(0);
  return layer;
}

// Direction `d` of operand i, by its first dimension.
Value Part(ImportedNode& node, int i, int64_t d) {
  Shape shape;
  for (int k = 1; k < node.ShapeOf(i).rank(); ++k) {
    shape.push_back(node.ShapeOf(i)[k]);
  }
  return Reshape(Slice(node.In(i), 0, d, d + 1), shape);
}

// The initial state of a direction, (B, H); zeros if the file has none.
Value FirstState(ImportedNode& node, int i, int64_t d, const Layer& layer) {
  if (!node.Has(i)) {
    return Fill(node.graph(), 0, node.Type(0).dtype,
                {layer.batch, layer.hidden});
  }
  Value all = node.In(i);
  if (layer.batch_first) all = Permute(all, {1, 0, 2});
  return Reshape(Slice(all, 0, d, d + 1), {layer.batch, layer.hidden});
}

// Half of a direction's bias (gates H): of the input's matmul, or of the state's.
Value Bias(ImportedNode& node, int64_t d, int64_t half) {
  if (!node.Has(3)) return Value();
  const int64_t size = node.ShapeOf(3)[1] / 2;
  return Slice(Part(node, 3, d), 0, half * size, (half + 1) * size);
}

Value Plus(Value x, Value bias) { return bias.ok() ? Add(x, bias) : x; }

// The input part of the gates in all steps, by one matmul: (T, B, gates H).
Value OfInputs(ImportedNode& node, const Layer& layer, int64_t d) {
  const Value w = Part(node, 1, d);
  return MatMul(layer.x, w, /*transpose_a=*/false, /*transpose_b=*/true);
}

// The results of a direction.
struct States {
  Value h, c;
};
struct Run {
  Value hidden;  // of all steps, (T, B, H); inert where nobody wants it
  States last;
};

// The hidden state after a step, from the input part of the gates (B, gates H) and the previous
// state; weights are not sliced in the body.
using Step = std::function<Value(Value of_input, Value before, LoopBody&)>;

Run RunSteps(ImportedNode& node, const Layer& layer, Value of_inputs,
             Value first, const Values& whole, bool reverse, const Step& step) {
  const LoopResults steps =
      Loop(node.graph(), layer.steps,
           {.carried = {first}, .sliced = {of_inputs}, .whole = whole},
           [&](LoopBody& body) {
             const Value h = step(body.sliced(0), body.carried(0), body);
             body.Next(0, h);
             if (node.Wants(0)) body.Stack(h);
           },
           {.reverse = reverse, .name = "steps"});
  Run run = {.hidden = Value(), .last = {steps.carried[0], Value()}};
  if (!steps.stacked.empty()) run.hidden = steps.stacked[0];  // else an error
  return run;
}

// Y (T, D, B, H), Y_h and optionally Y_c (D, B, H), with the batch first if the layer has that
// layout.
Values ResultsOf(ImportedNode& node, const Layer& layer,
                 const std::vector<Run>& directions, bool has_cell) {
  Values results(3);
  if (node.Wants(0)) {
    Values parts;
    for (const Run& direction : directions) {
      parts.push_back(Reshape(direction.hidden,
                              {layer.steps, 1, layer.batch, layer.hidden}));
    }
    const Value y = parts.size() == 1 ? parts[0] : Concat(parts, 1);
    results[0] = layer.batch_first ? Permute(y, {2, 0, 1, 3}) : y;
  }
  for (int which = 1; which <= (has_cell ? 2 : 1); ++which) {
    if (!node.Wants(which)) continue;
    Values parts;
    for (const Run& direction : directions) {
      parts.push_back(Reshape(which == 1 ? direction.last.h : direction.last.c,
                              {1, layer.batch, layer.hidden}));
    }
    const Value y = parts.size() == 1 ? parts[0] : Concat(parts, 0);
    results[static_cast<size_t>(which)] =
        layer.batch_first ? Permute(y, {1, 0, 2}) : y;
  }
  results.resize(static_cast<size_t>(node.num_results()));
  return results;
}

// Returns whether direction `d` is reversed.
bool IsReverse(const Layer& layer, int64_t d) {
  return layer.backward && (d == 1 || !layer.forward);
}

}  // namespace

// Gates in ONNX's order: i, o, f, c; the op's is i, f, c, o.
Result<Values> ConvertLSTM(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Layer layer,
                           LayerOf(node, 4, {"Sigmoid", "Tanh", "Tanh"}));
  if (node.Has(7)) {
    return node.Unsupported("has peepholes, which are not there here");
  }
  if (node.Int("input_forget", 0) != 0) {
    return node.Unsupported("couples its input and forget gates");
  }
  const auto reorder = [&](Value rows) {
    const int64_t h = layer.hidden;
    const auto parts = Split(rows, 0, {h, h, h, h});
    return Concat(Values{parts[0], parts[2], parts[3], parts[1]}, 0);
  };
  const auto by_batch = [](Value x) { return Permute(x, {1, 0, 2}); };
  std::vector<Run> directions;
  for (int64_t d = 0; d < layer.directions; ++d) {
    const Value w = reorder(Part(node, 1, d));
    const Value bias = node.Has(3)
                           ? reorder(Add(Bias(node, d, 0), Bias(node, d, 1)))
                           : Value();
    const Value gates = Plus(MatMul(by_batch(layer.x), w, /*transpose_a=*/false,
                                    /*transpose_b=*/true),
                             bias);
    const bool reverse = IsReverse(layer, d);
    const LstmSequenceResults all = LstmSequence(
        gates, FirstState(node, 5, d, layer), FirstState(node, 6, d, layer),
        reorder(Part(node, 2, d)), reverse);
    const int64_t last = reverse ? 0 : layer.steps - 1;
    const auto at_last = [&](Value x) {
      return Reshape(Slice(by_batch(x), 0, last, last + 1),
                     {layer.batch, layer.hidden});
    };
    directions.push_back({by_batch(all.h), {at_last(all.h), at_last(all.c)}});
  }
  return ResultsOf(node, layer, directions, /*has_cell=*/true);
}

// Gates in ONNX's order: z, r, h.
Result<Values> ConvertGRU(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Layer layer,
                           LayerOf(node, 3, {"Sigmoid", "Tanh"}));
  const bool reset_after = node.Int("linear_before_reset", 0) != 0;
  std::vector<Run> directions;
  for (int64_t d = 0; d < layer.directions; ++d) {
    const int64_t h = layer.hidden;
    const Value r = Part(node, 2, d);
    Values whole = {Slice(r, 0, 0, 2 * h), Slice(r, 0, 2 * h, 3 * h)};
    if (const Value bias = Bias(node, d, 1); bias.ok()) {
      whole.push_back(Slice(bias, 0, 0, 2 * h));
      whole.push_back(Slice(bias, 0, 2 * h, 3 * h));
    }
    const Step step = [&](Value of_input, Value before, LoopBody& body) {
      const Value r_gates = body.whole(0), r_new = body.whole(1);
      const bool biased = whole.size() > 2;
      const Value bias_gates = biased ? body.whole(2) : Value();
      const Value bias_new = biased ? body.whole(3) : Value();
      const auto of = Split(of_input, 1, {2 * h, h});
      const auto gates =
          Split(Sigmoid(Plus(Add(of[0], MatMul(before, r_gates, false, true)),
                             bias_gates)),
                1, {h, h});
      const Value z = gates[0], reset = gates[1];
      const Value old =
          reset_after
              ? Mul(reset, Plus(MatMul(before, r_new, false, true), bias_new))
              : Plus(MatMul(Mul(reset, before), r_new, false, true), bias_new);
      const Value fresh = Tanh(Add(of[1], old));
      return Add(fresh, Mul(z, Sub(before, fresh)));
    };
    directions.push_back(RunSteps(
        node, layer, Plus(OfInputs(node, layer, d), Bias(node, d, 0)),
        FirstState(node, 5, d, layer), whole, IsReverse(layer, d), step));
  }
  return ResultsOf(node, layer, directions, /*has_cell=*/false);
}

Result<Values> ConvertRNN(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Layer layer, LayerOf(node, 1, {"Tanh"}));
  std::vector<Run> directions;
  for (int64_t d = 0; d < layer.directions; ++d) {
    const Value bias =
        node.Has(3) ? Add(Bias(node, d, 0), Bias(node, d, 1)) : Value();
    const Step step = [](Value of_input, Value before, LoopBody& body) {
      return Tanh(Add(of_input, MatMul(before, body.whole(0), false, true)));
    };
    directions.push_back(
        RunSteps(node, layer, Plus(OfInputs(node, layer, d), bias),
                 FirstState(node, 5, d, layer), {Part(node, 2, d)},
                 IsReverse(layer, d), step));
  }
  return ResultsOf(node, layer, directions, /*has_cell=*/false);
}

}  // namespace stowage::onnx

#include "nn/recurrent.h"

#include <cmath>
#include <functional>
#include <span>
#include <string>

#include "base/strings.h"
#include "ir/dtype.h"
#include "ir/ops.h"
#include "ir/shape.h"

namespace stowage {
namespace {

using States = std::vector<Value>;

// What is particular to a kind of layer.
struct Kind {
  std::string_view op;
  int64_t gates;
  int states;         // of a layer; the first is h
  bool joins_biases;  // whether the input's bias may take the state's
  // All hidden states, (B, T, H). `inputs` (B, T, gates * H) is what the input adds to
  // the gates; the states become the last ones.
  std::function<Value(Value inputs, Value weights, Value bias, States* states)>
      run;
};

// A stack of layers, over x (B, T, in).
class Stack {
 public:
  Stack(const Kind& kind, std::string_view name, int64_t hidden, int64_t layers,
        Dropouts* dropouts, SourceLoc loc)
      : kind_(kind),
        name_(name),
        hidden_(hidden),
        layers_(layers),
        dropouts_(dropouts),
        loc_(loc) {}

  // y, of the last layer. `states` are those of each layer, or none, and become the
  // last ones.
  Value Run(Value x, std::vector<States>* states) const {
    if (!x.ok() || !Check(x, *states)) {
      states->clear();
      return {};
    }
    if (states->empty()) {
      const Value zeros =
          Fill(*x.builder(), 0, x.dtype(), {x.dim(0), hidden_}, loc_);
      states->assign(static_cast<size_t>(layers_),
                     States(static_cast<size_t>(kind_.states), zeros));
    }
    Value y = x;
    for (int64_t k = 0; k < layers_; ++k) {
      if (k > 0 && dropouts_ != nullptr) y = dropouts_->Apply(y, loc_);
      y = Layer(y, k, &(*states)[static_cast<size_t>(k)]);
    }
    return y.ok() ? y.builder()->Name(name_, y, loc_) : y;
  }

 private:
  bool Check(Value x, const std::vector<States>& states) const {
    GraphBuilder& g = *x.builder();
    const auto fail = [&](const std::string& message) {
      g.Fail(StrCat("[", kind_.op, "] ", message), loc_);
      return false;
    };
    if (x.rank() != 3 || !IsFloat(x.dtype())) {
      return fail(StrCat("the input of ", Quoted(name_), ", ",
                         Quoted(g.info(x).name), ", is ", x.type().ToString(),
                         "; expected floats (batch, time, features)"));
    }
    if (hidden_ < 1 || layers_ < 1) {
      return fail(StrCat(Quoted(name_), " has ", layers_, " layers of ",
                         hidden_, "; both must be at least 1"));
    }
    if (!states.empty() && std::ssize(states) != layers_) {
      return fail(StrCat(Quoted(name_), " has ", layers_, " layers and ",
                         states.size(), " initial states"));
    }
    const TensorType expected{x.dtype(), {x.dim(0), hidden_}};
    for (const States& of_layer : states) {
      for (const Value& state : of_layer) {
        if (!state.ok()) {
          return fail(
              StrCat("an initial state of ", Quoted(name_), " is missing"));
        }
        if (state.type() == expected) continue;
        return fail(StrCat("the initial state ", Quoted(g.info(state).name),
                           " of ", Quoted(name_), " is ",
                           state.type().ToString(), "; expected ",
                           expected.ToString()));
      }
    }
    return true;
  }

  Value Layer(Value x, int64_t k, States* states) const {
    if (!x.ok()) return x;
    GraphBuilder& g = *x.builder();
    const int64_t width = kind_.gates * hidden_;
    const auto param = [&](std::string_view which, const Shape& shape) {
      const Init init =
          Init::Uniform(1 / std::sqrt(static_cast<double>(hidden_)));
      return g.Param(StrCat(name_, ".", which, "_l", k), x.dtype(), shape, init,
                     loc_);
    };
    const Value from_input = param("weight_ih", {width, x.dim(2)});
    const Value from_state = param("weight_hh", {width, hidden_});
    const Value input_bias = param("bias_ih", {width});
    const Value state_bias = param("bias_hh", {width});

    const Value bias =
        kind_.joins_biases ? Add(input_bias, state_bias, loc_) : input_bias;
    const Value inputs =
        Add(MatMul(x, from_input, false, true, loc_), bias, loc_);
    const Value y = kind_.run(inputs, from_state, state_bias, states);
    return y.ok() ? g.Name(StrCat(name_, ".y_l", k), y, loc_) : y;
  }

  const Kind& kind_;
  const std::string_view name_;
  const int64_t hidden_;
  const int64_t layers_;
  Dropouts* const dropouts_;
  const SourceLoc loc_;
};

// After the last position of a sequence, (B, H).
Value LastOf(Value sequence, SourceLoc loc) {
  if (!sequence.ok()) return sequence;
  const int64_t time = sequence.dim(1);
  return Reshape(Slice(sequence, 1, time - 1, time, 1, loc),
                 {sequence.dim(0), sequence.dim(2)}, loc);
}

// The steps of a GRU from `state` on, which becomes the last one.
Value UnrollGru(Value inputs, Value weights, Value bias, int64_t hidden,
                Value* state, SourceLoc loc) {
  if (!inputs.ok()) return inputs;
  const int64_t batch = inputs.dim(0);
  const Axes ones(static_cast<size_t>(inputs.dim(1)), 1);
  const Axes gates(3, hidden);
  std::vector<Value> outputs;
  for (const Value& of_step : Split(inputs, 1, ones, loc)) {
    if (!of_step.ok()) return of_step;
    const Value added =
        Add(MatMul(*state, weights, false, true, loc), bias, loc);
    const std::vector<Value> i =
        Split(Reshape(of_step, {batch, inputs.dim(2)}, loc), 1, gates, loc);
    const std::vector<Value> s = Split(added, 1, gates, loc);
    const Value reset = Sigmoid(Add(i[0], s[0], loc), loc);
    const Value update = Sigmoid(Add(i[1], s[1], loc), loc);
    const Value fresh = Tanh(Add(i[2], Mul(reset, s[2], loc), loc), loc);
    *state = Add(fresh, Mul(update, Sub(*state, fresh, loc), loc), loc);
    outputs.push_back(Reshape(*state, {batch, 1, hidden}, loc));
  }
  return Concat(outputs, 1, loc);
}

}  // namespace

LstmResults Lstm(Value x, std::string_view name, int64_t hidden,
                 const LstmOptions& options, SourceLoc loc) {
  const Kind kind = {
      .op = "lstm",
      .gates = 4,
      .states = 2,
      .joins_biases = true,
      .run = [&](Value inputs, Value weights, Value, States* states) {
        const LstmSequenceResults all = LstmSequence(
            inputs, (*states)[0], (*states)[1], weights, false, loc);
        *states = {LastOf(all.h, loc), LastOf(all.c, loc)};
        return all.h;
      }};
  std::vector<States> states;
  for (const LstmState& state : options.initial) {
    states.push_back({state.h, state.c});
  }
  LstmResults results;
  results.y = Stack(kind, name, hidden, options.layers, options.dropouts, loc)
                  .Run(x, &states);
  for (const States& state : states) {
    results.last.push_back({state[0], state[1]});
  }
  return results;
}

GruResults Gru(Value x, std::string_view name, int64_t hidden,
               const GruOptions& options, SourceLoc loc) {
  const Kind kind = {
      .op = "gru",
      .gates = 3,
      .states = 1,
      .joins_biases = false,
      .run = [&](Value inputs, Value weights, Value bias, States* states) {
        return UnrollGru(inputs, weights, bias, hidden, &states->front(), loc);
      }};
  std::vector<States> states;
  for (const Value& state : options.initial) states.push_back({state});
  GruResults results;
  results.y = Stack(kind, name, hidden, options.layers, options.dropouts, loc)
                  .Run(x, &states);
  for (const States& state : states) results.last.push_back(state[0]);
  return results;
}

}  // namespace stowage

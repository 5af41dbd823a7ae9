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

// What is particular to a kind of layer. `inputs` and `hidden` (B, gates * H) are what
// the input and the state add to the gates; the first of the states is h.
struct Cell {
  std::string_view op;
  int64_t gates;
  int states;         // of a layer
  bool joins_biases;  // whether the input's bias may take the state's
  std::function<States(Value inputs, Value hidden, const States& states)> step;
};

// A stack of layers, over x (B, T, in).
class Stack {
 public:
  Stack(const Cell& cell, std::string_view name, int64_t hidden, int64_t layers,
        Dropouts* dropouts, SourceLoc loc)
      : cell_(cell),
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
                     States(static_cast<size_t>(cell_.states), zeros));
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
      g.Fail(StrCat("[", cell_.op, "] ", message), loc_);
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
    const int64_t batch = x.dim(0), time = x.dim(1);
    const int64_t width = cell_.gates * hidden_;
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
        cell_.joins_biases ? Add(input_bias, state_bias, loc_) : input_bias;
    const Value inputs =
        Add(MatMul(x, from_input, false, true, loc_), bias, loc_);
    const Axes ones(static_cast<size_t>(time), 1);
    std::vector<Value> outputs;
    for (const Value& of_step : Split(inputs, 1, ones, loc_)) {
      if (!of_step.ok()) return of_step;
      Value hidden = MatMul(states->front(), from_state, false, true, loc_);
      if (!cell_.joins_biases) hidden = Add(hidden, state_bias, loc_);
      *states =
          cell_.step(Reshape(of_step, {batch, width}, loc_), hidden, *states);
      g.Name(StrCat(name_, ".h_l", k, ".", outputs.size()), states->front(),
             loc_);
      outputs.push_back(Reshape(states->front(), {batch, 1, hidden_}, loc_));
    }
    return Concat(outputs, 1, loc_);
  }

  const Cell& cell_;
  const std::string_view name_;
  const int64_t hidden_;
  const int64_t layers_;
  Dropouts* const dropouts_;
  const SourceLoc loc_;
};

}  // namespace

LstmResults Lstm(Value x, std::string_view name, int64_t hidden,
                 const LstmOptions& options, SourceLoc loc) {
  const Cell cell = {
      .op = "lstm",
      .gates = 4,
      .states = 2,
      .joins_biases = true,
      .step = [&](Value inputs, Value state, const States& states) -> States {
        const std::vector<Value> gates =
            Split(Add(inputs, state, loc), 1, Axes(4, hidden), loc);
        const Value kept = Mul(Sigmoid(gates[1], loc), states[1], loc);
        const Value made =
            Mul(Sigmoid(gates[0], loc), Tanh(gates[2], loc), loc);
        const Value c = Add(kept, made, loc);
        return {Mul(Sigmoid(gates[3], loc), Tanh(c, loc), loc), c};
      }};
  std::vector<States> states;
  for (const LstmState& state : options.initial) {
    states.push_back({state.h, state.c});
  }
  LstmResults results;
  results.y = Stack(cell, name, hidden, options.layers, options.dropouts, loc)
                  .Run(x, &states);
  for (const States& state : states) {
    results.last.push_back({state[0], state[1]});
  }
  return results;
}

GruResults Gru(Value x, std::string_view name, int64_t hidden,
               const GruOptions& options, SourceLoc loc) {
  const Cell cell = {
      .op = "gru",
      .gates = 3,
      .states = 1,
      .joins_biases = false,
      .step = [&](Value inputs, Value state, const States& states) -> States {
        const std::vector<Value> i = Split(inputs, 1, Axes(3, hidden), loc);
        const std::vector<Value> s = Split(state, 1, Axes(3, hidden), loc);
        const Value reset = Sigmoid(Add(i[0], s[0], loc), loc);
        const Value update = Sigmoid(Add(i[1], s[1], loc), loc);
        const Value fresh = Tanh(Add(i[2], Mul(reset, s[2], loc), loc), loc);
        const Value change = Mul(update, Sub(states[0], fresh, loc), loc);
        return {Add(fresh, change, loc)};
      }};
  std::vector<States> states;
  for (const Value& state : options.initial) states.push_back({state});
  GruResults results;
  results.y = Stack(cell, name, hidden, options.layers, options.dropouts, loc)
                  .Run(x, &states);
  for (const States& state : states) results.last.push_back(state[0]);
  return results;
}

}  // namespace stowage

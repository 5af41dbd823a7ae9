#include "nn/recurrent.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "nn/layers.h"
#include "nn/model_options.h"
#include "nn/model_parts.h"

namespace stowage {

namespace {

using States = std::vector<Value>;

// The parts in which LSTM and GRU differ.
struct Kind {
  std::string_view op;
  int64_t gates;
  int states;  // of a layer; the first is h
  // Returns all hidden states, (B, T, H), for x (B, T, in); replaces the state by the last.
  std::function<Value(Value x, const RecurrentParams& params, States* states)>
      run;
};

// Declares the params of a layer, of `width` elements for all gates.
RecurrentParams DeclareParams(GraphBuilder& g, std::string_view name,
                              int64_t layer, DType dtype, int64_t in,
                              int64_t width, int64_t hidden, SourceLoc loc) {
  const auto param = [&](std::string_view which, const Shape& shape) {
    const Init init = Init::Uniform(1 / std::sqrt(static_cast<double>(hidden)));
    return g.Param(StrCat(name, ".", which, "_l", layer), dtype, shape, init,
                   loc);
  };
  RecurrentParams params;
  params.weight_ih = param("weight_ih", {width, in});
  params.weight_hh = param("weight_hh", {width, hidden});
  params.bias_ih = param("bias_ih", {width});
  params.bias_hh = param("bias_hh", {width});
  return params;
}

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

  // Returns y of the last layer. `states` are the initial states by layer, or empty, and are
  // replaced by the last ones.
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
    const RecurrentParams params = DeclareParams(
        g, name_, k, x.dtype(), x.dim(2), kind_.gates * hidden_, hidden_, loc_);
    const Value y = kind_.run(x, params, states);
    return y.ok() ? g.Name(StrCat(name_, ".y_l", k), y, loc_) : y;
  }

  const Kind& kind_;
  const std::string_view name_;
  const int64_t hidden_;
  const int64_t layers_;
  Dropouts* const dropouts_;
  const SourceLoc loc_;
};

// The last position of a sequence, (B, H).
Value LastOf(Value sequence, SourceLoc loc) {
  if (!sequence.ok()) return sequence;
  const int64_t time = sequence.dim(1);
  return Reshape(Slice(sequence, 1, time - 1, time, 1, loc),
                 {sequence.dim(0), sequence.dim(2)}, loc);
}

// The input part of the gates, (B, T, gates * H).
Value FromInput(Value x, Value weights, Value bias, SourceLoc loc) {
  return Add(MatMul(x, weights, false, true, loc), bias, loc);
}

// The steps of a GRU, a loop over positions; replaces `state` by the last.
Value GruSteps(Value inputs, const RecurrentParams& params, int64_t hidden,
               Value* state, SourceLoc loc) {
  if (!inputs.ok()) return inputs;
  const Axes gates(3, hidden);
  const LoopOperands operands = {.carried = {*state},
                                 .sliced = {Permute(inputs, {1, 0, 2}, loc)},
                                 .whole = {params.weight_hh, params.bias_hh}};
  const LoopResults steps = Loop(
      *inputs.builder(), inputs.dim(1), operands,
      [&](LoopBody& body) {
        const Value h = body.carried(0);
        const Value added =
            Add(MatMul(h, body.whole(0), false, true, loc), body.whole(1), loc);
        const std::vector<Value> i = Split(body.sliced(0), 1, gates, loc);
        const std::vector<Value> s = Split(added, 1, gates, loc);
        const Value reset = Sigmoid(Add(i[0], s[0], loc), loc);
        const Value update = Sigmoid(Add(i[1], s[1], loc), loc);
        const Value fresh = Tanh(Add(i[2], Mul(reset, s[2], loc), loc), loc);
        const Value next =
            Add(fresh, Mul(update, Sub(h, fresh, loc), loc), loc);
        body.Next(0, next);
        body.Stack(next);
      },
      {.name = "gru"}, loc);
  if (steps.stacked.empty()) return Value();  // an error is recorded
  *state = steps.carried[0];
  return Permute(steps.stacked[0], {1, 0, 2}, loc);
}

}  // namespace

RecurrentParams DeclareLstmParams(GraphBuilder& g, std::string_view name,
                                  int64_t layer, DType dtype, int64_t in,
                                  int64_t hidden, SourceLoc loc) {
  return DeclareParams(g, name, layer, dtype, in, 4 * hidden, hidden, loc);
}

Value LstmLayer(Value x, const RecurrentParams& params, LstmState* state,
                SourceLoc loc) {
  const Value bias = Add(params.bias_ih, params.bias_hh, loc);
  const LstmSequenceResults all =
      LstmSequence(FromInput(x, params.weight_ih, bias, loc), state->h,
                   state->c, params.weight_hh, false, loc);
  *state = {LastOf(all.h, loc), LastOf(all.c, loc)};
  return all.h;
}

LstmResults Lstm(Value x, std::string_view name, int64_t hidden,
                 const LstmOptions& options, SourceLoc loc) {
  const Kind kind = {
      .op = "lstm",
      .gates = 4,
      .states = 2,
      .run = [&](Value of, const RecurrentParams& params, States* states) {
        LstmState state = {(*states)[0], (*states)[1]};
        const Value y = LstmLayer(of, params, &state, loc);
        *states = {state.h, state.c};
        return y;
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
      .run = [&](Value of, const RecurrentParams& params, States* states) {
        const Value inputs =
            FromInput(of, params.weight_ih, params.bias_ih, loc);
        return GruSteps(inputs, params, hidden, &states->front(), loc);
      }};
  std::vector<States> states;
  for (const Value& state : options.initial) states.push_back({state});
  GruResults results;
  results.y = Stack(kind, name, hidden, options.layers, options.dropouts, loc)
                  .Run(x, &states);
  for (const States& state : states) results.last.push_back(state[0]);
  return results;
}

namespace {

Status CheckLstmConfig(const TextLstmConfig& config) {
  return CheckModelSizes(config.name, {{"layers", config.layers},
                                       {"width", config.width},
                                       {"hidden", config.hidden},
                                       {"vocabulary", config.vocabulary},
                                       {"max_seq", config.max_seq}});
}

// The states that earlier runs have left in caches.
std::vector<LstmState> KeptStates(GraphBuilder& g, const TextLstmConfig& config,
                                  const ModelOptions& options) {
  const Shape shape{*options.batch, config.hidden};
  std::vector<LstmState> states;
  for (int64_t i = 0; i < config.layers; ++i) {
    states.push_back({g.Cache(StrCat("lstm.h_l", i), options.dtype, shape),
                      g.Cache(StrCat("lstm.c_l", i), options.dtype, shape)});
  }
  return states;
}

Init OfHead(const TextLstmConfig& config) {
  return Init::Uniform(1 / std::sqrt(static_cast<double>(config.hidden)));
}

bool RunsInSegments(ModelPurpose purpose, const ModelOptions& options) {
  const bool adds_exactly =
      options.dtype == DType::kF32 || options.dtype == DType::kF64;
  return purpose != ModelPurpose::kGenerate && !options.cache &&
         options.dropout == 0 && adds_exactly &&
         *options.seq >= kMinInSegments && *options.seq % kSegment == 0;
}

// (B, T) as (segments, B, kSegment).
Value InSegments(Value x) {
  const int64_t batch = x.dim(0), segments = x.dim(1) / kSegment;
  return Permute(Reshape(x, {batch, segments, kSegment}), {1, 0, 2});
}

// The mean of the losses of segments, which have equal numbers of tokens.
Value LossInSegments(GraphBuilder& g, const TextLstmConfig& config,
                     const ModelOptions& options, Value table,
                     const Text& text) {
  const int64_t segments = *options.seq / kSegment;
  const Value zeros =
      Fill(g, 0, options.dtype, {*options.batch, config.hidden});
  LoopOperands operands;
  operands.sliced = {InSegments(text.tokens), InSegments(text.targets)};
  operands.whole = {table};
  for (int64_t i = 0; i < config.layers; ++i) {
    operands.carried.insert(operands.carried.end(), {zeros, zeros});
    const RecurrentParams params =
        DeclareLstmParams(g, "lstm", i, options.dtype,
                          i == 0 ? config.width : config.hidden, config.hidden);
    operands.whole.insert(
        operands.whole.end(),
        {params.weight_ih, params.weight_hh, params.bias_ih, params.bias_hh});
  }
  operands.whole.push_back(g.Param("head.weight", options.dtype,
                                   {config.hidden, config.vocabulary},
                                   OfHead(config)));
  operands.whole.push_back(
      g.Param("head.bias", options.dtype, {config.vocabulary}, Init::Zeros()));
  const LoopResults results = Loop(g, segments, operands, [&](LoopBody& body) {
    Value x = Gather(body.whole(0), body.sliced(0));
    for (size_t i = 0; i < static_cast<size_t>(config.layers); ++i) {
      LstmState state = {body.carried(2 * i), body.carried(2 * i + 1)};
      const RecurrentParams params = {
          body.whole(4 * i + 1), body.whole(4 * i + 2), body.whole(4 * i + 3),
          body.whole(4 * i + 4)};
      x = LstmLayer(x, params, &state);
      body.Next(2 * i, state.h);
      body.Next(2 * i + 1, state.c);
    }
    const size_t head = operands.whole.size() - 2;
    const Value logits = Add(MatMul(x, body.whole(head)), body.whole(head + 1));
    body.Sum(CrossEntropy(logits, body.sliced(1)));
  });
  if (results.summed.empty()) return Value();  // an error is recorded
  return MulScalar(results.summed[0], 1 / static_cast<double>(segments));
}

}  // namespace

Result<Graph> BuildTextLstm(const TextLstmConfig& config, ModelPurpose purpose,
                            const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckLstmConfig(config));
  STOWAGE_RETURN_IF_ERROR(
      CheckTextModelOptions(config.name, config.max_seq, purpose, options));
  STOWAGE_RETURN_IF_ERROR(CheckNoEmbedding(config.name, options));
  STOWAGE_RETURN_IF_ERROR(CheckNoLogitChunk(config.name, options));

  GraphBuilder g(config.name);
  const Text text = DeclareText(g, purpose, options);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const Value table =
      g.Param("embedding.weight", options.dtype,
              {config.vocabulary, config.width}, Init::Uniform(1));
  if (RunsInSegments(purpose, options)) {
    const Value loss = LossInSegments(g, config, options, table, text);
    if (loss.ok()) g.Output("loss", g.Name("loss", loss));
    return g.Finish();
  }
  Value x = dropouts.Apply(g.Name("embedding", Gather(table, text.tokens)));
  std::vector<LstmState> kept;
  if (options.cache) kept = KeptStates(g, config, options);
  const LstmResults lstm =
      Lstm(x, "lstm", config.hidden,
           {.layers = config.layers, .initial = kept, .dropouts = &dropouts});
  for (size_t i = 0; i < kept.size() && !g.error(); ++i) {
    Assign(kept[i].h, lstm.last[i].h);
    Assign(kept[i].c, lstm.last[i].c);
  }
  x = options.cache ? LastToken(lstm.y) : lstm.y;
  const Value logits = Linear(dropouts.Apply(x), "head", config.vocabulary,
                              {.init = OfHead(config)});
  if (purpose == ModelPurpose::kGenerate) {
    g.Output("logits", g.Name("logits", logits));
  } else {
    g.Output("loss", g.Name("loss", CrossEntropy(logits, text.targets)));
  }
  return g.Finish();
}

int64_t CountParams(const TextLstmConfig& config) {
  const int64_t h = config.hidden;
  const auto layer = [&](int64_t in) { return 4 * h * (in + h + 2); };
  return config.vocabulary * config.width + layer(config.width) +
         (config.layers - 1) * layer(h) + (h + 1) * config.vocabulary;
}

}  // namespace stowage

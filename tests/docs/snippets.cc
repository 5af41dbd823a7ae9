// The C++ of the documents that no example program has. Each function or namespace below
// compiles the blocks of one page; .ci/docs.py looks for them here, word for word.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stowage/stowage.h"

using namespace stowage;

namespace snippets {

// docs/tutorials/using.md
void ChooseGpu() {
  stowage::Result<std::unique_ptr<stowage::Backend>> gpu =
      stowage::MakeGpuBackend();
  if (!gpu.ok()) std::puts(gpu.error().message.c_str());  // why not
}

void TuneTiles() {
  std::unique_ptr<stowage::Backend> cpu =
      stowage::MakeCpuBackend({.threads = 2, .blocking_folder = "choices"});
}

// docs/tutorials/finetuning.md
void FineTune() {
  Result<FineTuning> tuning = FineTuning::Open(
      "SmolLM2-135M.Q4_1.gguf", {.lora = LoraRules{.rank = 8, .targets = {}}});
  Result<Training> training =
      Train({.model = tuning->ModelOf(ModelPurpose::kTrain, 256),
             .batch = 1,
             .training = {.groups = tuning->groups()},
             .budget = 200'000'000});
  training->Initialize(/*seed=*/1);
  Status loaded = tuning->LoadBase(training->step());
}

// docs/reference/optimizers.md
void TrainGroups() {
  TrainOptions options{.optimizer = AdamW{}};
  options.groups = {{.pattern = "backbone.*",
                     .optimizer = AdamW{.decay = 0.1},
                     .name = "backbone",
                     .inputs = {.lr = true}}};
  RunSpec run{.steps = 1000, .schedule = {.peak = 1e-3}};
  run.group_input = [](std::string_view /*lr:backbone*/, int64_t step) {
    return step <= 200 ? 0 : 1e-4;  // the backbone rests at first
  };
}

// docs/guides/classification.md
void Classify() {
  Result<FineTuning> tuning = FineTuning::Open(
      "bert-base-uncased",
      {.lora = std::nullopt,
       .classifier = ClassifierOptions{.labels = {"bad", "good"}}});
}

// docs/guides/embeddings.md
void Embed() {
  Result<FineTuning> tuning = FineTuning::Open(
      "all-MiniLM-L6-v2",
      {.lora = std::nullopt,
       .embedding = EmbeddingRules{
           .pooling = Pooling::kMean, .scale = 20, .documents = 1}});
}

// docs/guides/data.md
void ReadImages() {
  Result<ImageData> data = ImageData::Load("fashion-mnist", {.seed = 1});
  ImageReader reader(*data,
                     {.batch = 64, .seed = 1, .augmentation = {.pad = 2}});
  for (int64_t step = 1; step <= 1000; ++step) {
    Result<ImageBatch> batch = reader.Get(step);
  }
}

// docs/guides/onnx.md
void TrainOnnx() {
  Result<OnnxModel> model = ReadOnnx("resnet18.onnx");
  Result<Training> training =
      Train({.model =
                 [&](int64_t batch) {
                   return model->Build(
                       {.dims = {{"batch", batch}}, .loss = OnnxLoss{}});
                 },
             .batch = 64,
             .training = {.optimizer = Sgd{}},
             .budget = 2'000'000'000});
  training->Initialize(/*seed=*/1);
  Runner& step = training->step();
  Status loaded =
      model->ForEachWeight(step.graph(), [&](const NamedArray& weight) {
        return step.WriteBytes(weight.name, weight.array.type.dtype,
                               weight.array.data());
      });
}

// docs/guides/pretrained.md
void OpenPretrained() {
  Result<PretrainedModel> model =
      PretrainedModel::Open("SmolLM2-135M-Instruct.Q4_1.gguf");
  Result<Graph> graph =
      model->Build(ModelPurpose::kGenerate, {.batch = 1, .seq = 256});
}

// docs/guides/reports.md
std::string Report(const Graph& step, const Plan& plan) {
  Page page{.title = "my step"};
  page.programs.push_back(DescribeProgram("train", step, plan));
  const std::string html = ToHtml(page);
  return html;
}

// docs/guides/sharding.md
void TrainRank(const ModelFn& model, int r, Collectives& joined) {
  TrainingSpec spec = {
      .model = model,
      .batch = 64,  // of all ranks together
      .ranks = {.ranks = 4, .rank = r, .shard = Sharding::kStates}};
  const auto cpu =
      MakeCpuBackend({.collectives = &joined});  // runtime/backend.h
  Result<Training> training = Train(spec, *cpu);
}

// docs/guides/tokens.md
Result<std::vector<int32_t>> Ids(const std::string& folder) {
  STOWAGE_ASSIGN_OR_RETURN(Tokenizer tokenizer,
                           ReadTokenizer(folder + "/tokenizer.json"));
  return tokenizer.Encode("Once upon a time");
}

Result<std::string> Render(const std::string& jinja) {
  STOWAGE_ASSIGN_OR_RETURN(const ChatTemplate chat,
                           ChatTemplate::Parse(jinja, {{"bos_token", "<s>"},
                                                       {"eos_token", "</s>"}}));
  STOWAGE_ASSIGN_OR_RETURN(
      const std::string text,
      chat.Format({{"user", "What is a hold?"}}, {.open_answer = true}));
  return text;
}

// docs/explanation/fusion.md
void RunFused(const Result<OnnxModel>& model, Backend* cpu) {
  Result<PlannedGraph> net =
      PlanProgram(*model->Build(), {.device = cpu->Needs()});
  Result<Session> session =
      Session::Create({{"net", net->graph, net->plan}}, *cpu);
}

// docs/guides/admission.md
void Reserve(const Plan& plan) {
  const Ledger ledger = Ledger::Open("gpu.ledger").OrDie();
  const Reservation held = ledger
                               .Reserve({.resource = "device:0",
                                         .capacity = Bytes{14} << 30,
                                         .bytes = plan.arena_bytes(),
                                         .name = "nightly",
                                         .patience = std::nullopt})
                               .OrDie();
}

// docs/guides/control_flow.md
void Repeat(GraphBuilder& g, Value h0, Value xs, Value w, Value is_large,
            Value x) {
  LoopResults run = Loop(
      g, 100, {.carried = {h0}, .sliced = {xs}, .whole = {w}},
      [](LoopBody& body) {
        Value h =
            Tanh(Add(MatMul(body.carried(0), body.whole(0)), body.sliced(0)));
        body.Next(0, h);
        body.Stack(h);
      });
  Value last = run.carried[0];  // h after the last iteration
  Value all = run.stacked[0];   // h of every iteration: (100, ...)

  (void)last, (void)all;
  std::vector<Value> y =
      Cond(g, is_large, {x},
           {[](CondBody& body) { return std::vector{body.operand(0)}; },
            [](CondBody& body) { return std::vector{Tanh(body.operand(0))}; }});
}

}  // namespace snippets

// docs/guides/own_ops.md
namespace own_ops {

// Helpers of `infer`; the whole namespace would also import op names.
using op_defs::AttrKind, op_defs::CheckAttrs, op_defs::CheckDType,
    op_defs::CheckPositive, op_defs::CheckSameType, op_defs::DTypes,
    op_defs::FlopsPerResultElement, op_defs::Typed, op_defs::TypesResult;

TypesResult InferHuber(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"delta", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "delta"));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 0, "x", 1, "y"));
  return Typed(args, {args.type(0)});
}

const OpKind kHuber = *DefineOp("huber", {.num_inputs = 2,
                                          .infer = InferHuber,
                                          .flops = FlopsPerResultElement<5>,
                                          .may_overwrite = 0b11,
                                          .per_example = true});

const OpKind kHuberSlope =
    *DefineOp("huber_slope", {.num_inputs = 2, .infer = InferHuber});

const Status kHuberGrad =
    DefineVjp(kHuber, Differentiable([](VjpContext& v) {
                const Value slope = Mul(
                    v.cotangent(),
                    Apply(kHuberSlope, {v.input(0), v.input(1)}, v.attrs()));
                v.Contribute(0, slope);
                if (v.needs(1)) v.Contribute(1, Neg(slope));
              }));

void Check(Backend* cpu) {
  GraphBuilder g("huber");
  const Value x = g.Input("x", DType::kF64, {4, 3});
  const Value y = g.Input("y", DType::kF64, {4, 3});
  g.Output("loss", ReduceSum(Apply(kHuber, {x, y}, {{"delta", 2.5}})));
  const auto checked = CheckGradients(*g.Finish(), "loss", *cpu);
  if (!checked.ok()) std::puts(checked.error().message.c_str());
}

StepCode RunHuber(const Launch& launch, cpu::ThreadPool& pool) noexcept {
  const float* x = launch.inputs[0].as<const float>();
  const float* y = launch.inputs[1].as<const float>();
  float* loss = launch.outputs[0].as<float>();
  const float delta = static_cast<float>(launch.attrs->Float("delta"));
  const int64_t size = launch.outputs[0].size();
  pool.ParallelFor((size + 4095) / 4096, [&](int64_t chunk, int) {
    const int64_t end = std::min(size, (chunk + 1) * 4096);
    for (int64_t i = chunk * 4096; i < end; ++i) {
      const float d = std::abs(x[i] - y[i]);
      loss[i] = d <= delta ? d * d / 2 : delta * (d - delta / 2);
    }
  });
  return StepCode::kOk;
}

const Status kHuberRuns = cpu::DefineKernel(kHuber, {.run = RunHuber});

const OpKind kReverse = *DefineOp(
    "reverse_gradient",
    {.infer = [](const OpArgs& args) { return Typed(args, {args.type(0)}); },
     .view = [](const OpArgs&, int,
                const ViewLayout& x) -> std::optional<ViewLayout> { return x; },
     .accepts = AcceptAnyStrides});
const Status kReversed = DefineVjp(kReverse, Differentiable([](VjpContext& v) {
                                     v.Contribute(0, Neg(v.cotangent()));
                                   }));

void DeclareStates(GraphBuilder& g, Value x, Value w, Value u, int64_t width,
                   int64_t batch) {
  Value mean = g.State("mean", DType::kF32, {width});  // starts at zero
  Value centred = Sub(x, mean);
  LerpUpdate(mean, ReduceMean(x, {0}), Fill(g, 0.1, DType::kF32, {}));

  Value average = g.State("w.average", w.dtype(), w.shape());  // of weights
  LerpUpdate(average, w, Fill(g, 0.001, w.dtype(), {}));

  Value hidden = g.State("hidden", DType::kF32, {batch, width});
  Value next = Tanh(Add(MatMul(x, w), MatMul(hidden, u)));
  Assign(hidden, next);  // for the next step
  (void)centred;
}

Optimizer lion = UpdateRule{
    .name = "lion",
    .update =
        [](ParamUpdate& u) {
          Value m = u.State("m");  // "<param>.m", in the arena
          Value c = Add(MulScalar(m, 0.9), MulScalar(u.gradient, 0.1));
          u.Set(u.param, Sub(u.param, Mul(Sign(c), u.LearningRate())));
          u.Set(m, Add(MulScalar(m, 0.99), MulScalar(u.gradient, 0.01)));
        },
    .learning_rate = 1e-4};
void TrainWithLion(const ModelFn& MyModel) {
  Result<Training> training =
      Train({.model = MyModel, .batch = 64, .training = {.optimizer = lion}});
}

}  // namespace own_ops

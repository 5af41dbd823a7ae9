#include "nn/models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "ir/graph.h"
#include "ir/weight_type.h"
#include "nn/gpt.h"
#include "nn/llama.h"
#include "nn/recurrent.h"

namespace stowage {
namespace {

constexpr ModelPurpose kPurposes[] = {
    ModelPurpose::kTrain, ModelPurpose::kEvaluate, ModelPurpose::kGenerate};

bool Mentions(const Error& error, std::string_view text) {
  return error.message.find(text) != std::string::npos;
}

TensorType TypeOf(const Graph& graph, std::string_view name) {
  const auto id = graph.Find(name);
  REQUIRE_MESSAGE(id.has_value(), "no value ", name);
  return graph.value(*id).type;
}

std::set<std::string> OutputNames(const Graph& graph) {
  std::set<std::string> names;
  for (const GraphOutput& output : graph.outputs()) names.insert(output.name);
  return names;
}

std::vector<std::string> LeafNames(const Graph& graph, Role role) {
  std::vector<std::string> names;
  for (const ValueId id : graph.Leaves(role)) {
    names.push_back(graph.value(id).name);
  }
  return names;
}

TEST_CASE("gpt2-124m has the published number of params") {
  // Summed tensor by tensor from the published sizes of GPT-2 small.
  const int64_t c = 768;
  const int64_t embeddings = 50257 * c + 1024 * c;
  const int64_t norm = 2 * c;
  const int64_t attention = c * 3 * c + 3 * c + c * c + c;
  const int64_t mlp = c * 4 * c + 4 * c + 4 * c * c + c;
  const int64_t total = embeddings + 12 * (2 * norm + attention + mlp) + norm;
  REQUIRE(total == 124439808);

  const auto graph = BuildModel("gpt2-124m", ModelPurpose::kTrain);
  REQUIRE(graph.ok());
  CHECK(ParameterCount(*graph) == total);
  CHECK(FindModel("gpt2-124m")->params == total);
}

TEST_CASE("nets for images have torchvision's params, and a unet milesial's") {
  struct Expected {
    std::string_view model;
    ImageShape images;
    int64_t params;
    std::vector<std::pair<std::string, Shape>> some;  // linear ones (in, out)
  };
  const ImageShape imagenet{3, 224, 224, 1000};
  for (const Expected& expected :
       std::vector<Expected>{{"vgg19",
                              imagenet,
                              143'667'240,
                              {{"features.0.weight", {64, 3, 3, 3}},
                               {"features.34.weight", {512, 512, 3, 3}},
                               {"features.34.bias", {512}},
                               {"classifier.0.weight", {512 * 49, 4096}},
                               {"classifier.6.bias", {1000}}}},
                             {"mobilenet-v2",
                              imagenet,
                              3'504'872,
                              {{"features.0.0.weight", {32, 3, 3, 3}},
                               {"features.1.conv.0.0.weight", {32, 1, 3, 3}},
                               {"features.1.conv.2.bias", {16}},
                               {"features.2.conv.1.0.weight", {96, 1, 3, 3}},
                               {"features.17.conv.2.weight", {320, 960, 1, 1}},
                               {"features.18.0.weight", {1280, 320, 1, 1}},
                               {"classifier.1.weight", {1280, 1000}}}},
                             {"unet",
                              {3, 64, 96, 2},
                              31'037'698,
                              {{"encoder.0.conv1.weight", {64, 3, 3, 3}},
                               {"bottom.conv2.weight", {1024, 1024, 3, 3}},
                               {"decoder.3.up.weight", {1024, 512, 2, 2}},
                               {"decoder.0.conv1.weight", {64, 128, 3, 3}},
                               {"head.weight", {2, 64, 1, 1}}}}}) {
    CAPTURE(std::string(expected.model));
    const auto graph = BuildModel(expected.model, ModelPurpose::kTrain,
                                  {.batch = 2, .images = expected.images});
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    CHECK(ParameterCount(*graph) == expected.params);
    for (const auto& of : expected.some) {
      CAPTURE(of.first);
      CHECK(TypeOf(*graph, of.first).shape == of.second);
    }
  }
}

TEST_CASE("images of sizes that a net does not take are refused") {
  const auto build = [](std::string_view model, int64_t height, int64_t width) {
    return BuildModel(model, ModelPurpose::kTrain,
                      {.batch = 2, .images = ImageShape{3, height, width, 5}});
  };
  CHECK(build("vgg19", 32, 32).ok());
  CHECK(build("vgg19", 224, 448).ok());
  CHECK(build("vgg19", 96, 224).error().message ==
        "[model] images of 96 x 224 leave vgg19 a last map of 3 x 7, which "
        "equal windows do not bring to 7 x 7; expected sides of 32 or a "
        "multiple of 224");
  CHECK(Mentions(build("vgg19", 28, 28).error(), "a last map of 0 x 0"));
  CHECK(build("unet", 16, 48).ok());
  CHECK(build("unet", 100, 48).error().message ==
        "[model] images of 100 x 48 are given for unet, which halves them 4 "
        "times; expected heights and widths that are multiples of 16");
}

TEST_CASE("a unet reads a class for each pixel and predicts as many") {
  const auto graph =
      BuildModel("unet", ModelPurpose::kEvaluate,
                 {.batch = 2, .images = ImageShape{1, 32, 48, 3}});
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  CHECK(TypeOf(*graph, "x") == TensorType{DType::kF32, {2, 1, 32, 48}});
  CHECK(TypeOf(*graph, "y") == TensorType{DType::kI32, {2, 32, 48}});
  CHECK(TypeOf(*graph, "loss").shape == Shape{});
  CHECK(TypeOf(*graph, "predictions") == TensorType{DType::kI32, {2, 32, 48}});
}

TEST_CASE("every model counts its params as its graph does") {
  for (const ModelInfo& info : Models()) {
    CAPTURE(info.name);
    const auto graph = BuildModel(info.name, ModelPurpose::kTrain);
    REQUIRE(graph.ok());
    CHECK(ParameterCount(*graph) == info.params);
    CHECK(graph->name() == info.name);
  }
}

TEST_CASE("every model builds for each purpose under its own name") {
  std::set<std::string_view> names;
  for (const ModelInfo& info : Models()) {
    CAPTURE(info.name);
    CHECK(names.insert(info.name).second);
    const bool can_build = info.build != nullptr;
    REQUIRE(can_build);
    for (const ModelPurpose purpose : kPurposes) {
      CAPTURE(static_cast<int>(purpose));
      const auto graph = BuildModel(info.name, purpose, {.batch = 2});
      if (info.data != ModelData::kText && purpose == ModelPurpose::kGenerate) {
        REQUIRE_FALSE(graph.ok());
        CHECK(graph.error().code == ErrorCode::kUnsupported);
        CHECK(Mentions(graph.error(), info.name));
        continue;
      }
      REQUIRE_MESSAGE(graph.ok(), graph.error().message);
      CHECK(graph->name() == info.name);
      CHECK(ParameterCount(*graph) == info.params);
      switch (purpose) {
        case ModelPurpose::kTrain:
          CHECK(OutputNames(*graph) == std::set<std::string>{"loss"});
          break;
        case ModelPurpose::kEvaluate:
          CHECK(OutputNames(*graph).contains("loss"));
          CHECK(OutputNames(*graph).contains("predictions") ==
                (info.data != ModelData::kText));
          break;
        case ModelPurpose::kGenerate:
          CHECK(OutputNames(*graph) == std::set<std::string>{"logits"});
          break;
      }
    }
  }
}

TEST_CASE("every optimizer trains every model") {
  for (const ModelInfo& info : Models()) {
    const auto graph = BuildModel(info.name, ModelPurpose::kTrain);
    REQUIRE(graph.ok());
    for (const NamedOptimizer& named : NamedOptimizers()) {
      CAPTURE(info.name);
      CAPTURE(named.name);
      const auto step =
          BuildTrainStep(*graph, "loss", {.optimizer = named.optimizer});
      CHECK_MESSAGE(step.ok(), step.error().message);
    }
  }
}

TEST_CASE("models are listed from the smallest to the largest") {
  CHECK(std::ranges::is_sorted(Models(), {}, &ModelInfo::params));
}

TEST_CASE("a model has the same params in the same order for every purpose") {
  for (const ModelInfo& info : Models()) {
    CAPTURE(info.name);
    const auto train = BuildModel(info.name, ModelPurpose::kTrain,
                                  {.batch = 2, .dropout = 0.1});
    REQUIRE(train.ok());
    for (const ModelPurpose purpose : kPurposes) {
      const auto graph = BuildModel(info.name, purpose, {.batch = 1});
      if (!graph.ok()) {
        CHECK(graph.error().code == ErrorCode::kUnsupported);
        CHECK(info.data != ModelData::kText);
        continue;
      }
      CHECK(LeafNames(*graph, Role::kParam) == LeafNames(*train, Role::kParam));
      for (const std::string& name : LeafNames(*graph, Role::kParam)) {
        CHECK(TypeOf(*graph, name) == TypeOf(*train, name));
      }
    }
  }
}

TEST_CASE("params carry GPT-2's names, weights laid out (in, out)") {
  const auto graph = BuildGpt({.name = "tiny",
                               .layers = 2,
                               .heads = 2,
                               .width = 8,
                               .vocabulary = 11,
                               .max_seq = 6},
                              ModelPurpose::kTrain, {.batch = 3, .seq = 5});
  REQUIRE(graph.ok());
  CHECK(TypeOf(*graph, "wte").shape == Shape{11, 8});
  CHECK(TypeOf(*graph, "wpe").shape == Shape{6, 8});
  CHECK(TypeOf(*graph, "h.0.ln_1.weight").shape == Shape{8});
  CHECK(TypeOf(*graph, "h.0.ln_1.bias").shape == Shape{8});
  CHECK(TypeOf(*graph, "h.0.attn.c_attn.weight").shape == Shape{8, 24});
  CHECK(TypeOf(*graph, "h.0.attn.c_attn.bias").shape == Shape{24});
  CHECK(TypeOf(*graph, "h.1.attn.c_proj.weight").shape == Shape{8, 8});
  CHECK(TypeOf(*graph, "h.1.mlp.c_fc.weight").shape == Shape{8, 32});
  CHECK(TypeOf(*graph, "h.1.mlp.c_proj.weight").shape == Shape{32, 8});
  CHECK(TypeOf(*graph, "h.1.mlp.c_proj.bias").shape == Shape{8});
  CHECK(TypeOf(*graph, "ln_f.bias").shape == Shape{8});
  // 12 tensors a block, two embeddings, the last norm; the output layer has
  // none of its own.
  CHECK(LeafNames(*graph, Role::kParam).size() == 2 * 12 + 2 + 2);
}

const LlamaConfig& TinyLlama() {
  static const LlamaConfig kConfig{.name = "tiny",
                                   .layers = 2,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .width = 16,
                                   .hidden = 24,
                                   .vocabulary = 11,
                                   .max_seq = 6};
  return kConfig;
}

TEST_CASE("params carry Llama's names as Hugging Face gives them") {
  for (const bool tied : {false, true}) {
    LlamaConfig config = TinyLlama();
    config.tied_head = tied;
    const auto graph =
        BuildLlama(config, ModelPurpose::kTrain, {.batch = 3, .seq = 5});
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    const auto shape = [&](const char* name) {
      return TypeOf(*graph, name).shape;
    };
    CHECK(shape("model.embed_tokens.weight") == Shape{11, 16});
    CHECK(shape("model.layers.0.input_layernorm.weight") == Shape{16});
    CHECK(shape("model.layers.0.self_attn.q_proj.weight") == Shape{16, 16});
    CHECK(shape("model.layers.0.self_attn.k_proj.weight") == Shape{16, 8});
    CHECK(shape("model.layers.1.self_attn.v_proj.weight") == Shape{16, 8});
    CHECK(shape("model.layers.1.self_attn.o_proj.weight") == Shape{16, 16});
    CHECK(shape("model.layers.1.post_attention_layernorm.weight") == Shape{16});
    CHECK(shape("model.layers.1.mlp.gate_proj.weight") == Shape{16, 24});
    CHECK(shape("model.layers.1.mlp.up_proj.weight") == Shape{16, 24});
    CHECK(shape("model.layers.1.mlp.down_proj.weight") == Shape{24, 16});
    CHECK(shape("model.norm.weight") == Shape{16});
    if (!tied) CHECK(shape("lm_head.weight") == Shape{11, 16});
    // 9 tensors a block, the embedding, the last norm, the head.
    CHECK(LeafNames(*graph, Role::kParam).size() == 2 * 9 + (tied ? 2 : 3));
    CHECK(ParameterCount(*graph) == LlamaParameterCount(config));
  }
}

TEST_CASE("llama-nano has fewer keys than queries, and copies neither") {
  const auto graph = BuildModel("llama-nano", ModelPurpose::kTrain);
  REQUIRE(graph.ok());
  int attentions = 0;
  for (const Node& node : graph->nodes()) {
    CHECK(node.op != OpKind::kCopy);
    if (node.op != OpKind::kAttention) continue;
    ++attentions;
    const auto heads = [&](size_t i) {
      return graph->value(node.inputs[i]).type.shape[2];
    };
    CHECK(heads(0) == 2 * heads(1));
    CHECK(heads(1) == heads(2));
  }
  CHECK(attentions == 4);
}

TEST_CASE("a llama of impossible sizes is refused") {
  const auto refuse = [](auto change) {
    LlamaConfig config = TinyLlama();
    change(config);
    const auto graph =
        BuildLlama(config, ModelPurpose::kTrain, {.batch = 1, .seq = 4});
    REQUIRE_FALSE(graph.ok());
    CHECK(graph.error().code == ErrorCode::kInvalidArgument);
    return graph.error();
  };
  CHECK(Mentions(refuse([](LlamaConfig& c) { c.heads = 3; }),
                 "tiny has 3 heads over a width of 16; each must have an even "
                 "number of elements"));
  CHECK(Mentions(refuse([](LlamaConfig& c) { c.heads = 16; }),
                 "16 heads over a width of 16"));
  CHECK(Mentions(refuse([](LlamaConfig& c) { c.kv_heads = 3; }),
                 "4 heads and 3 kv_heads; these must divide the heads"));
  CHECK(Mentions(refuse([](LlamaConfig& c) { c.hidden = 0; }),
                 "tiny has hidden 0; it must be at least 1"));
  CHECK(Mentions(refuse([](LlamaConfig& c) { c.max_seq = 3; }),
                 "seq 4 for tiny is out of range; expected 1 to 3"));
}

TEST_CASE("a gpt graph reads tokens and targets and gives a loss or logits") {
  const ModelOptions options{.batch = 2, .seq = 7};
  for (const ModelPurpose purpose :
       {ModelPurpose::kTrain, ModelPurpose::kEvaluate}) {
    const auto graph = BuildModel("gpt-nano", purpose, options);
    REQUIRE(graph.ok());
    CHECK(LeafNames(*graph, Role::kInput) ==
          std::vector<std::string>{"tokens", "targets"});
    CHECK(TypeOf(*graph, "tokens") == TensorType{DType::kI32, {2, 7}});
    CHECK(OutputNames(*graph) == std::set<std::string>{"loss"});
    CHECK(TypeOf(*graph, "loss") == TensorType{DType::kF32, {}});
  }
  const auto graph = BuildModel("gpt-nano", ModelPurpose::kGenerate, options);
  REQUIRE(graph.ok());
  CHECK(LeafNames(*graph, Role::kInput) == std::vector<std::string>{"tokens"});
  CHECK(OutputNames(*graph) == std::set<std::string>{"logits"});
  CHECK(TypeOf(*graph, "logits").shape == Shape{2, 7, 96});
}

TEST_CASE("the mlp reads pixels and a class and can predict") {
  const auto train = BuildModel("mlp", ModelPurpose::kTrain, {.batch = 3});
  REQUIRE(train.ok());
  CHECK(TypeOf(*train, "x") == TensorType{DType::kF32, {3, 64}});
  CHECK(TypeOf(*train, "y") == TensorType{DType::kI32, {3}});
  CHECK(OutputNames(*train) == std::set<std::string>{"loss"});
  const auto evaluate =
      BuildModel("mlp", ModelPurpose::kEvaluate, {.batch = 3});
  REQUIRE(evaluate.ok());
  CHECK(OutputNames(*evaluate) == std::set<std::string>{"loss", "predictions"});
  CHECK(TypeOf(*evaluate, "predictions") == TensorType{DType::kI32, {3}});
}

TEST_CASE("the dtype is that of every param; a loss is never of half width") {
  for (const ModelInfo& info : Models()) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      CAPTURE(info.name);
      CAPTURE(DTypeName(dtype));
      const auto graph = BuildModel(info.name, ModelPurpose::kTrain,
                                    {.batch = 2, .dtype = dtype});
      REQUIRE(graph.ok());
      for (const std::string& name : LeafNames(*graph, Role::kParam)) {
        CHECK(TypeOf(*graph, name).dtype == dtype);
      }
      CHECK(TypeOf(*graph, "loss").dtype ==
            (dtype == DType::kF64 ? DType::kF64 : DType::kF32));
    }
  }
}

// The chunk of the loss in the graph, or nothing where it is of logits.
std::optional<int64_t> ChunkOf(const Result<Graph>& graph) {
  REQUIRE(graph.ok());
  for (const Node& node : graph->nodes()) {
    if (node.op == OpKind::kLinearCrossEntropy) return node.attrs.Int("chunk");
  }
  return std::nullopt;
}

TEST_CASE("a loss over a large vocabulary makes its logits by chunks") {
  for (const ModelPurpose purpose :
       {ModelPurpose::kTrain, ModelPurpose::kEvaluate}) {
    const auto of_rows = [&](int64_t batch, int64_t seq) {
      return ChunkOf(
          BuildModel("gpt2-124m", purpose, {.batch = batch, .seq = seq}));
    };
    CHECK(of_rows(64, 1024) == 4096);
    CHECK(of_rows(4, 1024) == 1024);
    CHECK(of_rows(3, 683) == 513);  // of 2,049 rows
    CHECK(of_rows(1, 128) == 256);
    CHECK(ChunkOf(BuildModel("gpt2-124m", purpose, {.logit_chunk = 100})) ==
          100);
    CHECK_FALSE(ChunkOf(BuildModel("gpt2-124m", purpose, {.logit_chunk = 0})));
    CHECK_FALSE(ChunkOf(BuildModel("gpt-nano", purpose)));
    CHECK(ChunkOf(BuildModel("gpt-nano", purpose, {.logit_chunk = 7})) == 7);
  }
  // Whoever generates wants the logits.
  const auto graph = BuildModel("gpt2-124m", ModelPurpose::kGenerate);
  CHECK_FALSE(ChunkOf(graph));
  CHECK(OutputNames(*graph) == std::set<std::string>{"logits"});
}

TEST_CASE("dropout is on in training graphs alone, each with its own id") {
  const ModelOptions options{.batch = 2, .seq = 4, .dropout = 0.25};
  const auto train = BuildModel("gpt-nano", ModelPurpose::kTrain, options);
  REQUIRE(train.ok());
  CHECK(TypeOf(*train, "seed") == TensorType{DType::kI64, {}});
  CHECK(TypeOf(*train, "step") == TensorType{DType::kI64, {}});
  std::set<int64_t> ids;
  int dropouts = 0;
  for (const Node& node : train->nodes()) {
    if (node.op != OpKind::kDropout) continue;
    ++dropouts;
    ids.insert(node.attrs.Int("id"));
    CHECK(node.attrs.Float("p") == 0.25);
  }
  CHECK(dropouts == 1 + 2 * 4);  // the embedding, two in each of four blocks
  CHECK(ids.size() == 9);

  const auto evaluate =
      BuildModel("gpt-nano", ModelPurpose::kEvaluate, options);
  REQUIRE(evaluate.ok());
  for (const Node& node : evaluate->nodes()) {
    CHECK(node.op != OpKind::kDropout);
  }
  CHECK_FALSE(evaluate->Find("seed").has_value());
}

TEST_CASE("the queries, keys and values of a block are views, not copies") {
  const auto graph = BuildModel("gpt-nano", ModelPurpose::kTrain);
  REQUIRE(graph.ok());
  for (const Node& node : graph->nodes()) CHECK(node.op != OpKind::kCopy);
}

TEST_CASE("residual projections start smaller, by the root of their number") {
  const auto graph = BuildModel("gpt-nano", ModelPurpose::kTrain);
  REQUIRE(graph.ok());
  const auto scale = [&](std::string_view name) {
    return graph->value(*graph->Find(name)).init.scale;
  };
  CHECK(scale("wte") == 0.02);
  CHECK(scale("h.3.mlp.c_fc.weight") == 0.02);
  // Four blocks end eight times in the residual stream; sqrt(8) = 2.8284271.
  CHECK(scale("h.3.mlp.c_proj.weight") == doctest::Approx(0.02 / 2.8284271));
  CHECK(scale("h.0.attn.c_proj.weight") == doctest::Approx(0.02 / 2.8284271));
}

TEST_CASE("an unknown model is refused with the names there are") {
  const auto graph = BuildModel("gpt-5", ModelPurpose::kTrain);
  REQUIRE_FALSE(graph.ok());
  CHECK(graph.error().code == ErrorCode::kNotFound);
  for (const ModelInfo& info : Models()) {
    CHECK(Mentions(graph.error(), info.name));
  }
  CHECK(Mentions(graph.error(), "\"gpt-5\""));
}

TEST_CASE("options out of range are refused with their value and the range") {
  const auto refuse = [](std::string_view model, ModelPurpose purpose,
                         const ModelOptions& options) {
    const auto graph = BuildModel(model, purpose, options);
    REQUIRE_FALSE(graph.ok());
    return graph.error();
  };
  const ModelPurpose train = ModelPurpose::kTrain;
  CHECK(Mentions(refuse("gpt-nano", train, {.batch = 0}), "[model] batch 0"));
  CHECK(Mentions(refuse("mlp", train, {.batch = -3}), "[model] batch -3"));
  CHECK(Mentions(refuse("gpt-nano", train, {.seq = 0}), "seq 0"));
  const Error too_long = refuse("gpt2-124m", train, {.seq = 1025});
  CHECK(Mentions(too_long, "seq 1025"));
  CHECK(Mentions(too_long, "1 to 1024"));
  for (const ModelInfo& info : Models()) {
    if (info.data == ModelData::kText) continue;
    const std::string name(info.name);
    CHECK(refuse(name, train, {.seq = 8}).message ==
          "[model] seq 8 is given, but " + name +
              " has no sequence; leave it out");
    CHECK(refuse(name, train, {.weighted_targets = true}).message ==
          "[model] weighted_targets are asked for, but " + name +
              " has no weights for its targets; leave them out");
    CHECK(refuse(name, train, {.logit_chunk = 8}).message ==
          "[model] logit_chunk 8 is given, but " + name +
              " has few logits; leave it out");
  }
  CHECK(refuse("vit-tiny", train, {.images = ImageShape{3, 64, 60, 10}})
            .message ==
        "[model] images of 64 x 60 are given for vit-tiny, which cuts them "
        "into patches of 8 x 8; expected multiples of 8");
  CHECK(Mentions(refuse("gpt-nano", train, {.logit_chunk = -1}),
                 "logit_chunk -1"));
  CHECK(Mentions(refuse("mlp", train, {.dtype = DType::kI32}), "i32"));
  CHECK(Mentions(refuse("mlp", train, {.dropout = 1}), "dropout 1"));
  CHECK(Mentions(refuse("mlp", train, {.dropout = -0.5}), "dropout -0.5"));
  CHECK(refuse("mlp", ModelPurpose::kGenerate, {}).code ==
        ErrorCode::kUnsupported);
}

TEST_CASE("a gpt of impossible sizes is refused") {
  const GptConfig good{.name = "odd",
                       .layers = 1,
                       .heads = 2,
                       .width = 8,
                       .vocabulary = 5,
                       .max_seq = 4};
  const auto refuse = [](const GptConfig& config, const ModelOptions& options) {
    const auto graph = BuildGpt(config, ModelPurpose::kTrain, options);
    REQUIRE_FALSE(graph.ok());
    return graph.error();
  };
  const ModelOptions options{.batch = 1, .seq = 4};
  REQUIRE(BuildGpt(good, ModelPurpose::kTrain, options).ok());
  GptConfig config = good;
  config.heads = 3;
  CHECK(Mentions(refuse(config, options), "3 heads over a width of 8"));
  config = good;
  config.vocabulary = 0;
  CHECK(Mentions(refuse(config, options), "vocabulary 0"));
  config = good;
  config.layers = -1;
  CHECK(Mentions(refuse(config, options), "layers -1"));
  CHECK(Mentions(refuse(good, {.seq = 4}), "no batch size"));
  CHECK(Mentions(refuse(good, {.batch = 1}), "no seq length"));
}

TEST_CASE("an lstm of characters gives a loss or logits") {
  const ModelOptions options{.batch = 2, .seq = 7};
  const auto train = BuildModel("lstm-char", ModelPurpose::kTrain, options);
  REQUIRE_MESSAGE(train.ok(), train.error().message);
  CHECK(LeafNames(*train, Role::kInput) ==
        std::vector<std::string>{"tokens", "targets"});
  CHECK(OutputNames(*train) == std::set<std::string>{"loss"});
  const auto generate =
      BuildModel("lstm-char", ModelPurpose::kGenerate, options);
  REQUIRE_MESSAGE(generate.ok(), generate.error().message);
  CHECK(LeafNames(*generate, Role::kInput) ==
        std::vector<std::string>{"tokens"});
  CHECK(TypeOf(*generate, "logits").shape == Shape{2, 7, 96});
}

TEST_CASE("an lstm of impossible sizes or options is refused") {
  const TextLstmConfig good{.name = "odd",
                            .layers = 2,
                            .width = 3,
                            .hidden = 4,
                            .vocabulary = 5,
                            .max_seq = 6};
  const auto refuse = [](const TextLstmConfig& config,
                         const ModelOptions& options) {
    const auto graph = BuildTextLstm(config, ModelPurpose::kTrain, options);
    REQUIRE_FALSE(graph.ok());
    return graph.error().message;
  };
  const ModelOptions options{.batch = 1, .seq = 6};
  const auto graph = BuildTextLstm(good, ModelPurpose::kTrain, options);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  // An embedding of 5 x 3, gates of (3 + 4 + 2) and (4 + 4 + 2) a unit, a head.
  CHECK(ParameterCount(*graph) == 15 + 16 * 9 + 16 * 10 + 25);
  CHECK(CountParams(good) == ParameterCount(*graph));
  TextLstmConfig config = good;
  config.hidden = 0;
  CHECK(refuse(config, options) ==
        "[model] odd has hidden 0; it must be at least 1");
  CHECK(refuse(good, {.batch = 1, .seq = 7}) ==
        "[model] seq 7 for odd is out of range; expected 1 to 6");
  CHECK(refuse(good, {.batch = 1, .seq = 6, .logit_chunk = 8}) ==
        "[model] logit_chunk 8 is given, but odd has few logits; leave it out");
}

TEST_CASE("every model's defaults are within its limits") {
  for (const ModelInfo& info : Models()) {
    CAPTURE(info.name);
    CHECK(info.seq <= info.max_seq);
    CHECK(info.training.steps > info.training.schedule.warmup);
    CHECK(info.training.schedule.peak > 0);
    CHECK(FindModel(info.name)->description == info.description);
    CHECK(BuildModel(info.name, ModelPurpose::kEvaluate).ok());
  }
}

}  // namespace
}  // namespace stowage

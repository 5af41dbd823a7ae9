#include "nn/image_nets.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "nn/layers.h"
#include "nn/model_options.h"
#include "nn/model_parts.h"

namespace stowage {

namespace {

constexpr std::array<int64_t, 4> kWidths = {64, 128, 256, 512};

int64_t Expansion(const ResNetConfig& config) {
  return config.bottleneck ? 4 : 1;
}

class ResNetLayers {
 public:
  ResNetLayers(const ResNetConfig& config, ModelPurpose purpose)
      : config_(config), norm_{.training = purpose == ModelPurpose::kTrain} {}

  Value Features(Value x) const {
    Value h =
        Conv(x, "conv1", kWidths[0], {.kernel = 7, .stride = 2, .padding = 3});
    h = Relu(BatchNorm(h, "bn1", norm_));
    h = MaxPool(h, {.kernel = 3, .stride = 2, .padding = 1});
    for (size_t stage = 0; stage < kWidths.size(); ++stage) {
      for (int64_t block = 0; block < config_.blocks[stage]; ++block) {
        const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        h = Block(h, StrCat("layer", stage + 1, ".", block), kWidths[stage],
                  stride);
      }
    }
    return h;
  }

 private:
  // The residual branch of a block.
  Value Residual(Value x, const std::string& name, int64_t width,
                 int64_t stride) const {
    const auto conv = [&](Value h, int i, int64_t channels, int64_t kernel,
                          int64_t step) {
      h = Conv(h, StrCat(name, ".conv", i), channels,
               {.kernel = kernel, .stride = step, .padding = kernel / 2});
      return BatchNorm(h, StrCat(name, ".bn", i), norm_);
    };
    if (!config_.bottleneck) {
      return conv(Relu(conv(x, 1, width, 3, stride)), 2, width, 3, 1);
    }
    const Value narrow = Relu(conv(x, 1, width, 1, 1));
    return conv(Relu(conv(narrow, 2, width, 3, stride)), 3,
                width * Expansion(config_), 1, 1);
  }

  Value Block(Value x, const std::string& name, int64_t width,
              int64_t stride) const {
    if (!x.ok()) return x;
    const Value residual = Residual(x, name, width, stride);
    const int64_t out = width * Expansion(config_);
    Value shortcut = x;
    if (stride != 1 || x.dim(1) != out) {
      shortcut = Conv(x, StrCat(name, ".downsample.0"), out,
                      {.kernel = 1, .stride = stride});
      shortcut = BatchNorm(shortcut, StrCat(name, ".downsample.1"), norm_);
    }
    const Value y = Relu(Add(residual, shortcut));
    return y.ok() ? y.builder()->Name(name, y) : y;
  }

  const ResNetConfig& config_;
  const BatchNormOptions norm_;
};

}  // namespace

Result<Graph> BuildMlp(ModelPurpose purpose, const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckClassifierOptions("mlp", purpose, options));
  const ImageShape images = options.images.value_or(kMlpImages);
  const int64_t inputs = images.size();
  GraphBuilder g("mlp");
  const Value x = g.Input("x", DType::kF32, {*options.batch, inputs});
  const Value y = g.Input("y", DType::kI32, {*options.batch});
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  Value h = Cast(x, options.dtype);
  h = g.Name("relu1", Relu(Linear(h, "fc1", kMlpHidden,
                                  {.init = KaimingNormal(inputs)})));
  h = dropouts.Apply(h);
  h = g.Name("relu2", Relu(Linear(h, "fc2", kMlpHidden,
                                  {.init = KaimingNormal(kMlpHidden)})));
  h = dropouts.Apply(h);
  const Value logits =
      Linear(h, "fc3", images.classes, {.init = KaimingNormal(kMlpHidden)});
  return FinishClassifier(g, logits, y, purpose);
}

ResNetConfig ResNet18() { return {.name = "resnet18", .blocks = {2, 2, 2, 2}}; }
ResNetConfig ResNet50() {
  return {.name = "resnet50", .blocks = {3, 4, 6, 3}, .bottleneck = true};
}

int64_t CountParams(const ResNetConfig& config, int64_t channels,
                    int64_t classes) {
  const auto conv = [](int64_t in, int64_t out, int64_t kernel) {
    return in * out * kernel * kernel + 2 * out;  // and its batch norm's
  };
  int64_t params = conv(channels, kWidths[0], 7);
  int64_t in = kWidths[0];
  for (size_t stage = 0; stage < kWidths.size(); ++stage) {
    const int64_t width = kWidths[stage];
    const int64_t out = width * Expansion(config);
    for (int64_t block = 0; block < config.blocks[stage]; ++block) {
      params += config.bottleneck ? conv(in, width, 1) + conv(width, width, 3) +
                                        conv(width, out, 1)
                                  : conv(in, width, 3) + conv(width, width, 3);
      const bool strides = stage > 0 && block == 0;
      if (strides || in != out) params += conv(in, out, 1);
      in = out;
    }
  }
  return params + in * classes + classes;
}

Result<Graph> BuildResNet(const ResNetConfig& config, ModelPurpose purpose,
                          const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(
      CheckClassifierOptions(config.name, purpose, options));
  GraphBuilder g(config.name);
  const Images images = DeclareImages(g, options);
  const ResNetLayers net(config, purpose);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const Value pooled =
      dropouts.Apply(ReduceMean(net.Features(images.x), {2, 3}));
  // Uniform in +-1/sqrt(in), as PyTorch's linear layers.
  const auto features = static_cast<double>(kWidths.back() * Expansion(config));
  const Value logits = Linear(pooled, "fc", options.images->classes,
                              {.init = Init::Uniform(1 / std::sqrt(features))});
  return FinishClassifier(g, logits, images.labels, purpose);
}

namespace {

Value Relu6(Value x) { return Clamp(x, 0, 6); }

class MobileNetLayers {
 public:
  MobileNetLayers(const MobileNetConfig& config, ModelPurpose purpose)
      : config_(config), norm_{.training = purpose == ModelPurpose::kTrain} {}

  Value Features(Value x) const {
    Value h = Bent(x, "features.0", config_.first,
                   {.kernel = 3, .stride = 2, .padding = 1});
    int64_t index = 1;
    for (const MobileNetStage& stage : config_.stages) {
      for (int64_t block = 0; block < stage.blocks; ++block) {
        h = Block(h, StrCat("features.", index++), stage,
                  block == 0 ? stage.stride : 1);
      }
    }
    return Bent(h, StrCat("features.", index), config_.last, {.kernel = 1});
  }

 private:
  // A convolution, batch norm and relu6, one module in torchvision.
  Value Bent(Value x, const std::string& name, int64_t channels,
             const ConvLayerOptions& options) const {
    const Value h = Conv(x, StrCat(name, ".0"), channels, options);
    return Relu6(BatchNorm(h, StrCat(name, ".1"), norm_));
  }

  Value Block(Value x, const std::string& name, const MobileNetStage& stage,
              int64_t stride) const {
    if (!x.ok()) return x;
    const int64_t wide = x.dim(1) * stage.expansion;
    Value h = x;
    int part = 0;
    if (stage.expansion != 1) {
      h = Bent(h, StrCat(name, ".conv.", part++), wide, {.kernel = 1});
    }
    h = Bent(h, StrCat(name, ".conv.", part++), wide,
             {.kernel = 3, .stride = stride, .padding = 1, .groups = wide});
    h = Conv(h, StrCat(name, ".conv.", part++), stage.channels, {.kernel = 1});
    h = BatchNorm(h, StrCat(name, ".conv.", part), norm_);
    if (stride == 1 && x.dim(1) == stage.channels) h = Add(x, h);
    return h.ok() ? h.builder()->Name(name, h) : h;
  }

  const MobileNetConfig& config_;
  const BatchNormOptions norm_;
};

}  // namespace

MobileNetConfig MobileNetV2() {
  return {.name = "mobilenet-v2",
          .stages = {{1, 16, 1, 1},
                     {6, 24, 2, 2},
                     {6, 32, 3, 2},
                     {6, 64, 4, 2},
                     {6, 96, 3, 1},
                     {6, 160, 3, 2},
                     {6, 320, 1, 1}}};
}

int64_t CountParams(const MobileNetConfig& config, int64_t channels,
                    int64_t classes) {
  const auto conv = [](int64_t in_group, int64_t out, int64_t kernel) {
    return in_group * out * kernel * kernel + 2 * out;  // and its batch norm's
  };
  int64_t params = conv(channels, config.first, 3);
  int64_t in = config.first;
  for (const MobileNetStage& stage : config.stages) {
    for (int64_t block = 0; block < stage.blocks; ++block) {
      const int64_t wide = in * stage.expansion;
      if (stage.expansion != 1) params += conv(in, wide, 1);
      params += conv(1, wide, 3) + conv(wide, stage.channels, 1);
      in = stage.channels;
    }
  }
  return params + conv(in, config.last, 1) + config.last * classes + classes;
}

Result<Graph> BuildMobileNet(const MobileNetConfig& config,
                             ModelPurpose purpose,
                             const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(
      CheckClassifierOptions(config.name, purpose, options));
  GraphBuilder g(config.name);
  const Images images = DeclareImages(g, options);
  const MobileNetLayers net(config, purpose);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const Value pooled =
      dropouts.Apply(ReduceMean(net.Features(images.x), {2, 3}));
  const Value logits = Linear(pooled, "classifier.1", options.images->classes,
                              {.init = Init::Normal(0.01)});  // torchvision's
  return FinishClassifier(g, logits, images.labels, purpose);
}

namespace {

constexpr int64_t kMap = 7;  // sides of what the linear layers see

// The side of the last map, which each stage halves.
int64_t LastSide(const VggConfig& config, int64_t side) {
  return side >> config.stages.size();
}

Status CheckImages(const VggConfig& config, const ImageShape& images) {
  const int64_t height = LastSide(config, images.height);
  const int64_t width = LastSide(config, images.width);
  const auto fits = [](int64_t side) {
    return side == 1 || (side > 0 && side % kMap == 0);
  };
  if (fits(height) && fits(width)) return {};
  const int64_t factor = int64_t{1} << config.stages.size();
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[model] images of ", images.height, " x ", images.width,
                      " leave ", config.name, " a last map of ", height, " x ",
                      width, ", which equal windows do not bring to ", kMap,
                      " x ", kMap, "; expected sides of ", factor,
                      " or a multiple of ", kMap * factor)};
}

// h (N, C, H, W) -> (N, C, 7, 7): torchvision's adaptive average pool, which repeats a
// single position.
Value ToMap(Value h) {
  if (!h.ok()) return h;
  const Axes sides = {std::min(h.dim(2), kMap), std::min(h.dim(3), kMap)};
  const Value pooled = AdaptiveAvgPool(h, sides);
  return BroadcastTo(pooled, {h.dim(0), h.dim(1), kMap, kMap});
}

}  // namespace

VggConfig Vgg19() {
  return {.name = "vgg19",
          .stages = {{64, 64},
                     {128, 128},
                     {256, 256, 256, 256},
                     {512, 512, 512, 512},
                     {512, 512, 512, 512}}};
}

int64_t CountParams(const VggConfig& config, int64_t channels,
                    int64_t classes) {
  int64_t params = 0;
  int64_t in = channels;
  for (const std::vector<int64_t>& stage : config.stages) {
    for (const int64_t out : stage) {
      params += 9 * in * out + out;
      in = out;
    }
  }
  const auto linear = [](int64_t from, int64_t to) { return from * to + to; };
  return params + linear(in * kMap * kMap, config.hidden) +
         linear(config.hidden, config.hidden) + linear(config.hidden, classes);
}

Result<Graph> BuildVgg(const VggConfig& config, ModelPurpose purpose,
                       const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(
      CheckClassifierOptions(config.name, purpose, options));
  STOWAGE_RETURN_IF_ERROR(CheckImages(config, *options.images));
  GraphBuilder g(config.name);
  const Images images = DeclareImages(g, options);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  Value h = images.x;
  int layer = 0;  // as torchvision counts: relus and pools too
  for (const std::vector<int64_t>& stage : config.stages) {
    for (const int64_t channels : stage) {
      h = Relu(Conv(h, StrCat("features.", layer), channels,
                    {.padding = 1, .bias = true}));
      layer += 2;
    }
    h = MaxPool(h, {.kernel = 2});
    ++layer;
  }
  h = Reshape(ToMap(h), {*options.batch, -1});
  const Init init = Init::Normal(0.01);  // torchvision's
  for (const char* name : {"classifier.0", "classifier.3"}) {
    h = dropouts.Apply(Relu(Linear(h, name, config.hidden, {.init = init})));
  }
  const Value logits =
      Linear(h, "classifier.6", options.images->classes, {.init = init});
  return FinishClassifier(g, logits, images.labels, purpose);
}

namespace {

Status CheckImages(const UNetConfig& config, const ImageShape& images) {
  const int64_t factor = int64_t{1} << config.depth;
  if (images.height % factor == 0 && images.width % factor == 0) return {};
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[model] images of ", images.height, " x ", images.width,
                      " are given for ", config.name, ", which halves them ",
                      config.depth,
                      " times; expected heights and widths that are "
                      "multiples of ",
                      factor)};
}

// Two convolutions of 3 x 3.
Value ConvStage(Value h, const std::string& name, int64_t channels,
                const BatchNormOptions& norm) {
  for (const int i : {1, 2}) {
    h = Conv(h, StrCat(name, ".conv", i), channels, {.padding = 1});
    h = Relu(BatchNorm(h, StrCat(name, ".bn", i), norm));
  }
  return h;
}

}  // namespace

UNetConfig UNet() { return {.name = "unet"}; }

int64_t CountParams(const UNetConfig& config, int64_t channels,
                    int64_t classes) {
  const auto stage = [](int64_t in, int64_t out) {
    return 9 * in * out + 9 * out * out + 4 * out;  // and two batch norms'
  };
  int64_t params = 0;
  int64_t in = channels;
  int64_t width = config.width;
  for (int64_t i = 0; i < config.depth; ++i) {
    // The up-convolution to this width, the decoder stage and the encoder stage.
    params += stage(in, width) + 4 * 2 * width * width + width +
              stage(2 * width, width);
    in = width;
    width *= 2;
  }
  return params + stage(in, width) + config.width * classes + classes;
}

Result<Graph> BuildUNet(const UNetConfig& config, ModelPurpose purpose,
                        const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(
      CheckClassifierOptions(config.name, purpose, options));
  STOWAGE_RETURN_IF_ERROR(CheckImages(config, *options.images));
  GraphBuilder g(config.name);
  const Images images = DeclareLabelledPixels(g, options);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const BatchNormOptions norm = {.training = purpose == ModelPurpose::kTrain};
  Value h = images.x;
  std::vector<Value> skips;
  for (int64_t i = 0; i < config.depth; ++i) {
    h = ConvStage(h, StrCat("encoder.", i), config.width << i, norm);
    skips.push_back(h);
    h = MaxPool(h, {.kernel = 2});
  }
  h = dropouts.Apply(
      ConvStage(h, "bottom", config.width << config.depth, norm));
  for (int64_t i = config.depth - 1; i >= 0; --i) {
    const std::string name = StrCat("decoder.", i);
    const Value up = ConvTranspose(h, StrCat(name, ".up"), config.width << i,
                                   {.kernel = 2, .stride = 2, .bias = true});
    const std::array joined = {skips[static_cast<size_t>(i)], up};
    h = ConvStage(Concat(joined, 1), name, config.width << i, norm);
  }
  // As PyTorch's initialization, by fan-in: initial scores are small.
  const Init init =
      Init::Uniform(1 / std::sqrt(static_cast<double>(config.width)));
  const Value scores = Conv(h, "head", options.images->classes,
                            {.kernel = 1, .bias = true, .init = init});
  // The loss requires the classes last.
  return FinishClassifier(g, Permute(scores, {0, 2, 3, 1}), images.labels,
                          purpose);
}

namespace {

constexpr double kEps = 1e-6;
constexpr int64_t kWidening = 4;  // of the two linear layers of a block

int64_t Tokens(const ViTConfig& config, const ImageShape& images) {
  return 1 + (images.height / config.patch) * (images.width / config.patch);
}

class Net {
 public:
  Net(GraphBuilder& g, const ViTConfig& config, Dropouts* dropouts)
      : g_(g), config_(config), dropouts_(*dropouts) {}

  // x (B, C, H, W) -> the class token (B, width) after the last norm.
  Value Features(Value x) const {
    Value h = dropouts_.Apply(Embed(x));
    for (int64_t i = 0; i < config_.layers; ++i) {
      h = Block(h, StrCat("encoder.layers.encoder_layer_", i));
    }
    if (!h.ok()) return h;
    const int64_t batch = h.dim(0);
    const Value first = Reshape(Slice(h, 1, 0, 1), {batch, config_.width});
    return LayerNorm(first, "encoder.ln", kEps);
  }

 private:
  // The class token and one per patch, plus positions: (B, T, width).
  Value Embed(Value x) const {
    const Value patches =
        Conv(x, "conv_proj", config_.width,
             {.kernel = config_.patch, .stride = config_.patch, .bias = true});
    if (!patches.ok()) return patches;
    const int64_t batch = patches.dim(0), width = config_.width;
    const int64_t count = patches.dim(2) * patches.dim(3);
    const Value rows =
        Permute(Reshape(patches, {batch, width, count}), {0, 2, 1});
    const Value token =
        g_.Param("class_token", x.dtype(), {1, 1, width}, Init::Zeros());
    const Value positions = g_.Param("encoder.pos_embedding", x.dtype(),
                                     {1, count + 1, width}, Init::Normal(0.02));
    const std::vector<Value> all = {BroadcastTo(token, {batch, 1, width}),
                                    rows};
    return Add(Concat(all, 1), positions);
  }

  Value Block(Value x, const std::string& name) const {
    const Value attended = MultiHeadAttention(
        LayerNorm(x, StrCat(name, ".ln_1"), kEps),
        StrCat(name, ".self_attention"), {.heads = config_.heads});
    const Value h = Add(x, dropouts_.Apply(attended));
    const Value wide =
        Linear(LayerNorm(h, StrCat(name, ".ln_2"), kEps),
               StrCat(name, ".mlp.0"), kWidening * config_.width);
    const Value narrow = Linear(dropouts_.Apply(GeluErf(wide)),
                                StrCat(name, ".mlp.3"), config_.width);
    const Value y = Add(h, dropouts_.Apply(narrow));
    return y.ok() ? g_.Name(name, y) : y;
  }

  GraphBuilder& g_;
  const ViTConfig& config_;
  Dropouts& dropouts_;
};

}  // namespace

ViTConfig ViTTiny() { return {.name = "vit-tiny"}; }

int64_t CountParams(const ViTConfig& config, const ImageShape& images) {
  const int64_t c = config.width;
  const auto linear = [](int64_t in, int64_t out) { return in * out + out; };
  const int64_t embedding =
      linear(images.channels * config.patch * config.patch, c) + c +
      Tokens(config, images) * c;
  const int64_t block = 2 * 2 * c + linear(c, 3 * c) + linear(c, c) +
                        linear(c, kWidening * c) + linear(kWidening * c, c);
  return embedding + config.layers * block + 2 * c + linear(c, images.classes);
}

Result<Graph> BuildViT(const ViTConfig& config, ModelPurpose purpose,
                       const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(
      CheckClassifierOptions(config.name, purpose, options));
  const ImageShape& shape = *options.images;
  if (shape.height % config.patch != 0 || shape.width % config.patch != 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[model] images of ", shape.height, " x ", shape.width,
               " are given for ", config.name,
               ", which cuts them into patches of ", config.patch, " x ",
               config.patch, "; expected multiples of ", config.patch)};
  }
  GraphBuilder g(config.name);
  const Images images = DeclareImages(g, options);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const Net net(g, config, &dropouts);
  const Value logits =
      Linear(net.Features(images.x), "heads.head", shape.classes);
  return FinishClassifier(g, logits, images.labels, purpose);
}

}  // namespace stowage

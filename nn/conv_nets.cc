#include "nn/conv_nets.h"

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

// Whether x has 1 to 3 spatial dimensions and the kernel a size for each; if not, the
// builder has the error.
bool CheckInput(Value x, std::string_view op, std::string_view name,
                const Axes& kernel, SourceLoc loc) {
  GraphBuilder& g = *x.builder();
  const int spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 3 || !IsFloat(x.dtype())) {
    g.Fail(StrCat("[", op, "] the input of ", Quoted(name), ", ",
                  Quoted(g.info(x).name), ", is ", x.type().ToString(),
                  "; expected a float tensor (N, C, spatial...) with 1 to 3 "
                  "spatial dimensions"),
           loc);
    return false;
  }
  if (static_cast<int>(kernel.size()) != spatial) {
    g.Fail(StrCat("[", op, "] the kernel of ", Quoted(name), " has ",
                  kernel.size(), " sizes; its input ", Quoted(g.info(x).name),
                  " has ", spatial, " spatial dimensions"),
           loc);
    return false;
  }
  return true;
}

// y (N, channels, ...) with the layer's bias, if it has one, under its name.
Value Finish(Value y, std::string_view name, std::string_view op, bool bias,
             SourceLoc loc) {
  if (!y.ok()) return y;
  GraphBuilder& g = *y.builder();
  if (bias) {
    y = g.Name(StrCat(name, ".", op), y, loc);
    const int64_t channels = y.dim(1);
    const Value b = g.Param(StrCat(name, ".bias"), y.dtype(), {channels},
                            Init::Zeros(), loc);
    Shape per_channel = {channels};
    while (per_channel.rank() < y.rank() - 1) per_channel.push_back(1);
    y = Add(y, Reshape(b, per_channel, loc), loc);
  }
  return g.Name(name, y, loc);
}

}  // namespace

Value Conv(Value x, std::string_view name, int64_t channels,
           const ConvLayerOptions& options, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  const Axes kernel = options.kernel.For(x.rank() - 2);
  if (!CheckInput(x, "conv", name, kernel, loc)) return {};
  const int64_t groups = options.groups;
  if (channels < 1 || groups < 1 || x.dim(1) % groups != 0 ||
      channels % groups != 0) {
    return g.Fail(StrCat("[conv] ", Quoted(name), " makes ", channels,
                         " channels of ", x.dim(1), " in ", groups,
                         " groups; both must be whole multiples of the groups"),
                  loc);
  }
  Shape shape = {channels, x.dim(1) / groups};
  int64_t fan_out = channels / groups;
  for (const int64_t size : kernel) {
    shape.push_back(size);
    fan_out *= size;
  }
  const Value weight =
      g.Param(StrCat(name, ".weight"), x.dtype(), shape,
              options.init.value_or(KaimingNormal(fan_out)), loc);
  const Value y = Conv(x, weight,
                       {.stride = options.stride,
                        .padding = options.padding,
                        .dilation = options.dilation,
                        .groups = groups},
                       loc);
  return Finish(y, name, "conv", options.bias, loc);
}

Value ConvTranspose(Value x, std::string_view name, int64_t channels,
                    const ConvTransposeLayerOptions& options, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  const Axes kernel = options.kernel.For(x.rank() - 2);
  if (!CheckInput(x, "conv_transpose", name, kernel, loc)) return {};
  if (channels < 1) {
    return g.Fail(StrCat("[conv_transpose] ", Quoted(name), " makes ", channels,
                         " channels; expected at least 1"),
                  loc);
  }
  Shape shape = {x.dim(1), channels};
  auto fan_in = static_cast<double>(x.dim(1));
  for (const int64_t size : kernel) {
    shape.push_back(size);
    fan_in *= static_cast<double>(size);
  }
  for (const int64_t stride : options.stride.For(x.rank() - 2)) {
    fan_in /= static_cast<double>(stride);
  }
  const Value weight =
      g.Param(StrCat(name, ".weight"), x.dtype(), shape,
              Init::Normal(kReluGain / std::sqrt(fan_in)), loc);
  const Value y = ConvTranspose(x, weight, {.stride = options.stride}, loc);
  return Finish(y, name, "conv_transpose", options.bias, loc);
}

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
  // The part of a block that is added to its input, before the last relu.
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
  // Uniform in +-1/sqrt(in), as PyTorch's linear layers begin.
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
  // A convolution, its batch norm and a relu6, as one module of torchvision.
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

// Sides of the last map where each stage leaves the half of it.
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

// h (N, C, H, W) -> (N, C, 7, 7): the average pool of torchvision, whose windows
// repeat a single position.
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
    // The up-convolution to this width, and the stages of both ways.
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
  // As PyTorch's begins, by what it takes: the scores of few classes start small.
  const Init init =
      Init::Uniform(1 / std::sqrt(static_cast<double>(config.width)));
  const Value scores = Conv(h, "head", options.images->classes,
                            {.kernel = 1, .bias = true, .init = init});
  // The classes last, as the loss takes them.
  return FinishClassifier(g, Permute(scores, {0, 2, 3, 1}), images.labels,
                          purpose);
}

}  // namespace stowage

#include "nn/resnet.h"

#include <cmath>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/check_options.h"
#include "nn/conv.h"
#include "nn/layers.h"
#include "nn/model_parts.h"

namespace stowage {
namespace {

constexpr std::array<int64_t, 4> kWidths = {64, 128, 256, 512};

int64_t Expansion(const ResNetConfig& config) {
  return config.bottleneck ? 4 : 1;
}

class Net {
 public:
  Net(const ResNetConfig& config, ModelPurpose purpose)
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
  const Pictures pictures = DeclarePictures(g, options);
  const Net net(config, purpose);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const Value pooled =
      dropouts.Apply(ReduceMean(net.Features(pictures.x), {2, 3}));
  // Uniform in +-1/sqrt(in), as PyTorch's linear layers begin.
  const auto features = static_cast<double>(kWidths.back() * Expansion(config));
  const Value logits = Linear(pooled, "fc", options.pictures->classes,
                              {.init = Init::Uniform(1 / std::sqrt(features))});
  return FinishClassifier(g, logits, pictures.labels, purpose);
}

}  // namespace stowage

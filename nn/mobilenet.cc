#include "nn/mobilenet.h"

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/check_options.h"
#include "nn/conv.h"
#include "nn/layers.h"
#include "nn/model_parts.h"

namespace stowage {
namespace {

Value Relu6(Value x) { return Clamp(x, 0, 6); }

class Net {
 public:
  Net(const MobileNetConfig& config, ModelPurpose purpose)
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
  const Pictures pictures = DeclarePictures(g, options);
  const Net net(config, purpose);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const Value pooled =
      dropouts.Apply(ReduceMean(net.Features(pictures.x), {2, 3}));
  const Value logits = Linear(pooled, "classifier.1", options.pictures->classes,
                              {.init = Init::Normal(0.01)});  // torchvision's
  return FinishClassifier(g, logits, pictures.labels, purpose);
}

}  // namespace stowage

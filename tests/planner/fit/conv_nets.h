#ifndef STOWAGE_TESTS_PLANNER_FIT_CONV_NETS_H_
#define STOWAGE_TESTS_PLANNER_FIT_CONV_NETS_H_

// Training steps of four convolutional nets of Keras: the largest batch that a card
// holds is what papers on recomputation compare.
//
// Layers and shapes are those of VGG19, ResNet50 and MobileNet (v1, alpha 1) of
// keras.applications at 224 x 224, and of the U-Net with a VGG16 encoder of
// keras_segmentation (vgg_unet) at 416 x 608 with 19 classes; images are f32, of three
// channels, and channels come first, as everywhere in Stowage. The layers are those of
// nn/, so the steps run. ReLU6 is ReLU. Padding is part of a convolution or a pool, not a
// layer of its own. The optimizer is SGD with momentum: weights and velocities are there
// all the time, and a gradient dies in its update.
//
//   Graph step = ConvNets()[0].step(/*batch=*/289);

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "ir/graph.h"

namespace stowage::fit {

struct ConvNet {
  const char* name;
  Graph (*step)(int64_t batch);
  /// The same net as Checkmate sees it: a node for each layer of Keras and one
  /// for its gradient, params and images left out.
  Graph (*checkmate_step)(int64_t batch);
  /// The largest batch on 16 GB at no more than one extra forward pass that
  /// Checkmate finds (Jain et al., MLSys 2020, figure 6).
  int64_t checkmate_batch;
};

std::span<const ConvNet> ConvNets();

/// The operations of the step's forward part.
double ForwardFlops(const Graph& step);

/// False where planner/fit/recompute/chain.h proves that no plan that runs the
/// step's nodes in their order fits `budget` for one extra forward pass.
bool MayFitForOneForward(const Graph& step, Bytes budget);

}  // namespace stowage::fit

#endif  // STOWAGE_TESTS_PLANNER_FIT_CONV_NETS_H_

#ifndef STOWAGE_TESTS_PLANNER_FIT_CONV_NETS_H_
#define STOWAGE_TESTS_PLANNER_FIT_CONV_NETS_H_

// Builds training steps of four convolutional nets of Keras. Papers on recomputation compare the
// largest batch of these nets that fits a GPU.
//
// The nets are VGG19, ResNet50 and MobileNet (v1, alpha 1) of keras.applications at 224 x 224, and
// the U-Net with a VGG16 encoder of keras_segmentation (vgg_unet) at 416 x 608 with 19 classes.
// Images are f32 with three channels. Channels come first, as everywhere in Stowage. ReLU6 is
// replaced with ReLU, and padding is part of a convolution or a pooling layer. The nets are built
// from layers of nn/, so the steps can run. The optimizer is SGD with momentum. Weights and
// velocities are live during the whole step, and a gradient dies in its update.
//
//   Graph step = ConvNets()[0].step(/*batch=*/289);

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "ir/graph.h"

namespace stowage::fit {

struct ConvNet {
  const char* name;
  /// Builds the training step of the net.
  Graph (*step)(int64_t batch);
  /// Builds the training step in the form in which Checkmate models it: each Keras
  /// layer is a node and its gradient is another node. Params and images are omitted.
  Graph (*checkmate_step)(int64_t batch);
  /// The largest batch that Checkmate finds for 16 GB at a cost of at most one
  /// extra forward pass (Jain et al., MLSys 2020, figure 6).
  int64_t checkmate_batch;
};

/// Returns the four nets.
std::span<const ConvNet> ConvNets();

/// Returns the number of operations (FLOPs) of the step's forward pass.
double ForwardFlops(const Graph& step);

/// Returns false if RecomputeBound (planner/fit/recompute/chain.h) proves that no
/// plan fits `budget` at the cost of at most one extra forward pass. The proof
/// assumes that the nodes of the step run in the order of the graph.
bool MayFitForOneForward(const Graph& step, Bytes budget);

}  // namespace stowage::fit

#endif  // STOWAGE_TESTS_PLANNER_FIT_CONV_NETS_H_

#ifndef STOWAGE_NN_NN_H_
#define STOWAGE_NN_NN_H_

// Layers and models as functions over the IR, and the data they learn from.
// Nothing here computes: a model is a graph, which autodiff, planner and
// runtime take from there.
//
//   Result<Graph> forward = BuildModel("gpt-nano", ModelPurpose::kTrain);

#include "nn/conv_nets.h"
#include "nn/encoder.h"
#include "nn/gpt.h"
#include "nn/layers.h"
#include "nn/llama.h"
#include "nn/lora.h"
#include "nn/losses.h"
#include "nn/model_options.h"
#include "nn/model_parts.h"
#include "nn/models.h"
#include "nn/pretrained.h"
#include "nn/published_model.h"
#include "nn/quantized_params.h"
#include "nn/recurrent.h"
#include "nn/rope_scaling.h"
#include "nn/schedule.h"
#include "nn/vit.h"

#endif  // STOWAGE_NN_NN_H_

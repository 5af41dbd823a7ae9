#ifndef STOWAGE_NN_NN_H_
#define STOWAGE_NN_NN_H_

// The umbrella header of nn/: layers, losses and models, which are functions that build graphs
// (ir/ir.h), and learning-rate schedules. The packages autodiff, planner and runtime process the
// graph of a model.
//
//   Result<Graph> forward = BuildModel("gpt-nano", ModelPurpose::kTrain);

#include "nn/contrastive.h"
#include "nn/encoder.h"
#include "nn/gpt.h"
#include "nn/image_nets.h"
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

#endif  // STOWAGE_NN_NN_H_

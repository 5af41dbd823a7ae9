#ifndef STOWAGE_TRAIN_TRAIN_H_
#define STOWAGE_TRAIN_TRAIN_H_

// The umbrella header of train/: training sessions, runs, fine-tuning and checkpoints.

#include "train/adapter_files.h"         // IWYU pragma: export
#include "train/device.h"                // IWYU pragma: export
#include "train/evaluation.h"            // IWYU pragma: export
#include "train/fine_tuning.h"           // IWYU pragma: export
#include "train/generation.h"            // IWYU pragma: export
#include "train/gguf_export.h"           // IWYU pragma: export
#include "train/gradient_check.h"        // IWYU pragma: export
#include "train/lora_weights.h"          // IWYU pragma: export
#include "train/merged_model.h"          // IWYU pragma: export
#include "train/optimizer_choice.h"      // IWYU pragma: export
#include "train/plan_cache.h"            // IWYU pragma: export
#include "train/rank_checkpoints.h"      // IWYU pragma: export
#include "train/run.h"                   // IWYU pragma: export
#include "train/run_checkpoints.h"       // IWYU pragma: export
#include "train/run_log.h"               // IWYU pragma: export
#include "train/sentence_transformer.h"  // IWYU pragma: export
#include "train/state_backup.h"          // IWYU pragma: export
#include "train/step_builder.h"
#include "train/step_memory.h"   // IWYU pragma: export
#include "train/step_planner.h"  // IWYU pragma: export
#include "train/training.h"      // IWYU pragma: export

#endif  // STOWAGE_TRAIN_TRAIN_H_

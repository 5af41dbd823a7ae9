#ifndef STOWAGE_TRAIN_TRAIN_H_
#define STOWAGE_TRAIN_TRAIN_H_

// The package's umbrella header: from a model and a budget to a training session.

#include "train/adapter_files.h"      // IWYU pragma: export
#include "train/adapter_rules.h"      // IWYU pragma: export
#include "train/averaged_weights.h"   // IWYU pragma: export
#include "train/checkpoint_series.h"  // IWYU pragma: export
#include "train/device.h"             // IWYU pragma: export
#include "train/dora.h"               // IWYU pragma: export
#include "train/find_largest.h"       // IWYU pragma: export
#include "train/fine_tuning.h"        // IWYU pragma: export
#include "train/finite_guard.h"       // IWYU pragma: export
#include "train/generation.h"         // IWYU pragma: export
#include "train/gguf_export.h"        // IWYU pragma: export
#include "train/gradient_check.h"     // IWYU pragma: export
#include "train/lora_matrices.h"      // IWYU pragma: export
#include "train/merged_weights.h"     // IWYU pragma: export
#include "train/metrics.h"            // IWYU pragma: export
#include "train/pissa.h"              // IWYU pragma: export
#include "train/plan_cache.h"         // IWYU pragma: export
#include "train/run.h"                // IWYU pragma: export
#include "train/run_checkpoints.h"    // IWYU pragma: export
#include "train/run_log.h"            // IWYU pragma: export
#include "train/step_builder.h"
#include "train/step_inputs.h"   // IWYU pragma: export
#include "train/step_planner.h"  // IWYU pragma: export
#include "train/training.h"      // IWYU pragma: export

#endif  // STOWAGE_TRAIN_TRAIN_H_

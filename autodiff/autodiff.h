#ifndef STOWAGE_AUTODIFF_AUTODIFF_H_
#define STOWAGE_AUTODIFF_AUTODIFF_H_

// The umbrella header of autodiff/, which provides backward graphs, optimizers and training steps.

#include "autodiff/backward.h"
#include "autodiff/micro_batches.h"
#include "autodiff/optimizer.h"
#include "autodiff/param_groups.h"
#include "autodiff/rank_step.h"
#include "autodiff/train_step.h"
#include "autodiff/update_rule.h"
#include "autodiff/vjp.h"

#endif  // STOWAGE_AUTODIFF_AUTODIFF_H_

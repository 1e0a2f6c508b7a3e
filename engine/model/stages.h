// A model in a pipeline: the passes of a rank's stages.
#pragma once
#include <vector>

#include "engine/core/batch.h"
#include "engine/model/loss.h"
#include "engine/parallel/stage.h"
#include "engine/pass/context.h"

namespace ft {

class Stages {
 public:
  virtual ~Stages() = default;

  // Keeps only this rank's stages, one or several chunks of the model: Model::add_units and all passes are
  // about these; Model::visit still visits the complete model. Called after Model::cut and before add_units.
  // Throws UserError (config) if the model cannot be split so.
  virtual void keep_stages(const std::vector<Stage>& chunks) = 0;
  // Begins the passes of a chunk over one micro-batch: take_in, forward_stage, take_gradients,
  // backward_stage. Passes over other micro-batches may come in between. Each micro-batch has a slot and,
  // until its backward pass is over, a Ctx with its own c.saved. Returns the tensors that receive the states
  // from the stage below; none in the first stage.
  virtual States take_in(Ctx&, Batch, int chunk, std::size_t slot) = 0;
  // Returns the states for the stage above; none in the last one.
  virtual States forward_stage(Ctx&, ParameterStore&, std::size_t slot) = 0;
  // Returns the tensors that receive the gradients of the states, if this stage or one below it is trained;
  // none in the last stage. They are in c.scratch or, with several chunks, replace the states, which have
  // been sent.
  virtual States take_gradients(Ctx&, std::size_t slot) = 0;
  // Runs the backward pass; the last stage computes the loss and its gradient first. Adds to the gradients of
  // its parameters. Returns the gradients of the states from below, if something further down is trained.
  virtual States backward_stage(Ctx&, ParameterStore&, std::size_t slot, const Loss&) = 0;
};

}  // namespace ft

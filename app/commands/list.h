// The commands, in the order of ft's help. Each is described in a file of this folder.
#pragma once
#include <array>

#include "app/commands/command.h"

namespace ft::commands {

extern const Command kPull, kPush, kNew, kTrain, kEval, kTeach, kPlan, kProfile, kSweep, kReport, kWatch,
    kValidate, kTune, kLaunch, kImport, kTranslateArgs, kDoctor, kVerify, kMerge, kQuantize, kExport,
    kInspect, kCheckpoint, kInit, kGenerate, kScore, kChat, kServe, kTokenize, kData, kMetrics, kCompletion,
    kHelp;

inline constexpr std::array kCommands{
    &kPull,   &kPush,     &kNew,      &kTrain,   &kEval,       &kTeach,  &kPlan,          &kProfile, &kSweep,
    &kReport, &kWatch,    &kValidate, &kTune,    &kLaunch,     &kImport, &kTranslateArgs, &kDoctor,  &kVerify,
    &kMerge,  &kQuantize, &kExport,   &kInspect, &kCheckpoint, &kInit,   &kGenerate,      &kScore,   &kChat,
    &kServe,  &kTokenize, &kData,     &kMetrics, &kCompletion, &kHelp};

// Commands that ft launch starts, on several ranks.
inline constexpr std::array kRankCommands{&kTrain, &kProfile, &kEval, &kGenerate};

}  // namespace ft::commands

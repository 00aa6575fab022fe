// Reads the words of one packet a line, in hexadecimal, and prints for each instruction in it what
// LLVM's itineraries for hexagonv66 say: its name, the number of results, and the cycle of each
// register operand, results first. With the name of another processor as its argument it prints
// instead every instruction whose cycles differ there, and the number of those compared.
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCInstrItineraries.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"

using namespace llvm;

extern "C" {
void LLVMInitializeHexagonTargetInfo(void);
void LLVMInitializeHexagonTargetMC(void);
void LLVMInitializeHexagonDisassembler(void);
}

// Newer releases return an optional.
static int cycle(int value) { return value; }
template <typename Optional> static int cycle(const Optional &value) {
    return value ? static_cast<int>(*value) : -1;
}

// Both tables have a class for every instruction; those that v66 has no cycles for are left out.
static int compare(const MCInstrInfo &instructions, const InstrItineraryData &own,
                   const InstrItineraryData &other) {
    unsigned compared = 0;
    for (unsigned opcode = 0; opcode < instructions.getNumOpcodes(); opcode++) {
        const MCInstrDesc &description = instructions.get(opcode);
        bool known = false, differs = false;
        for (unsigned i = 0; i < description.getNumOperands(); i++) {
            int here = cycle(own.getOperandCycle(description.getSchedClass(), i));
            int there = cycle(other.getOperandCycle(description.getSchedClass(), i));
            known |= here >= 0;
            differs |= here >= 0 && here != there;
        }
        compared += known;
        if (differs)
            std::cout << instructions.getName(opcode).str() << "\n";
    }
    std::cout << compared << "\n";
    return 0;
}

int main(int count, char **arguments) {
    LLVMInitializeHexagonTargetInfo();
    LLVMInitializeHexagonTargetMC();
    LLVMInitializeHexagonDisassembler();
    const char *name = "hexagon-unknown-elf", *cpu = "hexagonv66";
    std::string error;
    const Target *target = TargetRegistry::lookupTarget(name, error);
    if (!target) {
        std::cerr << error << "\n";
        return 2;
    }
    Triple triple{std::string(name)};
    MCTargetOptions options;
    std::unique_ptr<MCRegisterInfo> registers(target->createMCRegInfo(name));
    std::unique_ptr<MCAsmInfo> assembly(target->createMCAsmInfo(*registers, name, options));
    std::unique_ptr<MCInstrInfo> instructions(target->createMCInstrInfo());
    std::unique_ptr<MCSubtargetInfo> subtarget(
        target->createMCSubtargetInfo(name, cpu, "+hvxv66,+hvx-length128b"));
    MCContext context(triple, assembly.get(), registers.get(), subtarget.get());
    std::unique_ptr<MCDisassembler> disassembler(
        target->createMCDisassembler(*subtarget, context));
    InstrItineraryData itineraries = subtarget->getInstrItineraryForCPU(cpu);

    if (count > 1) {
        std::unique_ptr<MCSubtargetInfo> another(
            target->createMCSubtargetInfo(name, arguments[1], ""));
        if (!another || !another->isCPUStringValid(arguments[1]))
            return 3;
        return compare(*instructions, itineraries,
                       another->getInstrItineraryForCPU(arguments[1]));
    }

    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::vector<uint8_t> bytes;
        for (uint32_t word; words >> std::hex >> word;)
            for (int i = 0; i < 4; i++)
                bytes.push_back(static_cast<uint8_t>(word >> 8 * i));
        MCInst bundle;
        uint64_t size = 0;
        if (disassembler->getInstruction(bundle, size, bytes, 0, nulls()) !=
            MCDisassembler::Success) {
            std::cout << "?\n";
            continue;
        }
        for (const MCOperand &operand : bundle) {
            if (!operand.isInst())
                continue;
            const MCInst &inst = *operand.getInst();
            const MCInstrDesc &description = instructions->get(inst.getOpcode());
            std::cout << instructions->getName(inst.getOpcode()).str() << " "
                      << description.getNumDefs();
            for (unsigned i = 0; i < inst.getNumOperands(); i++)
                if (inst.getOperand(i).isReg())
                    std::cout << " "
                              << cycle(itineraries.getOperandCycle(description.getSchedClass(), i));
            std::cout << ";";
        }
        std::cout << "\n";
    }
}


�/device:GPU:0XStream #16(Compute)�"�'�" "8"&�>�" 	"8"8	"8
" 1Stream #17(MemcpyH2D)�"�" "8ZSteps�"�'�6[XLA Modules�"�'�6\TensorFlow Ops�"�'�"
fusion"QMIncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"	MemcpyH2D"	4"jit_step(3)*correlation_id*kernel_details*memcpy_details*
hlo_op*
hlo_module*
program_id*regs:8 grid:1,1,1*kind:H2D size:64 dest:0*		all-reduce.1*

jit_step*device_vendor2
*NVIDIA
�/device:GPU:0XStream #16(Compute)�"�'�" "8"&�>�" 	"8"8	"8
" 1Stream #17(MemcpyH2D)�"�" "8ZSteps�"�'�6[XLA Modules�"�'�6\TensorFlow Ops�"�'�"
fusion"QMIncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"	MemcpyH2D"	4"jit_step(3)*correlation_id*kernel_details*memcpy_details*
hlo_op*
hlo_module*
program_id*regs:8 grid:1,1,1*kind:H2D size:64 dest:0*		all-reduce.1*

jit_step*device_vendor2
*NVIDIA
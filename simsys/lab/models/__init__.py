"""PyTorch models from the descriptions that the simulator uses: transformer decoders and encoders, ResNet-50."""

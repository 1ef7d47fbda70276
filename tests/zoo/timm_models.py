"""Architectures of timm: the side of their images, and options that make a model small."""

from __future__ import annotations

from typing import Any

_AT_64 = """
test_resnet test_efficientnet test_efficientnet_gn test_efficientnet_ln test_efficientnet_evos
test_convnext test_convnext2 test_convnext3 test_mambaout test_nfnet test_byobnet
resnet10t resnet14t resnet18 resnet18d resnet26d resnet26t resnet33ts resnext26ts seresnext26t_32x4d
ecaresnet26t gcresnet33ts eca_resnet33ts seresnet33ts skresnet18 resnetblur18 resnetrs50
res2net50_14w_8s resnest14d resnetv2_18 resnetv2_18d cspresnet50 cs3darknet_s cs3darknet_focus_s
cspnext_tiny darknet17 convnext_atto convnext_atto_ols convnext_femto convnextv2_atto
convmixer_768_32 densenet121 dla46_c dla46x_c dla60x_c dpn48b edgenext_xx_small efficientnet_b0
efficientnet_lite0 efficientnet_es tf_efficientnetv2_b0 mixnet_s mnasnet_small mobilenetv1_100
mobilenetv2_035 mobilenetv3_small_050 mobilenetv3_small_075 mobilenetv4_conv_small_050 fbnetc_100
spnasnet_100 semnasnet_075 tinynet_e lcnet_035 lcnetv2_small hardcorenas_a fbnetv3_b
efficientvit_b0 efficientvim_m1 fasternet_t0 fastvit_t8 focalnet_tiny_srf ghostnet_050
ghostnetv3_050 hgnetv2_b0 hrnet_w18_small iformer_t inception_next_atto lowformer_b0 mambaout_femto
poolformer_s12 poolformerv2_s12 mobilevitv2_050 mobilevit_xxs regnetx_002 regnety_002 regnetv_040
repvgg_a0 repghostnet_050 repvit_m0_9 rexnet_100 rexnetr_100 selecsls42 starnet_s050 tresnet_m
mobileone_s0 nf_regnet_b0 nf_resnet26 dm_nfnet_f0 vovnet39a ese_vovnet19b_dw vgg11 xception41
gernet_s shvit_s1 swiftformer_xs
lambda_resnet26t nextvit_small
"""
_FIXED = """
test_vit:160 test_vit2:160 test_vit3:160 test_vit4:160 test_coatnet:160 test_maxvit:160
vit_tiny_patch16_224:64 vit_tiny_r_s16_p8_224:64 vit_small_patch32_224:64
vit_medium_patch16_gap_240:64
deit_tiny_patch16_224:64 deit_tiny_distilled_patch16_224:64 eva02_tiny_patch14_224:56
cait_xxs24_224:64 mixer_s32_224:64 gmlp_ti16_224:64 gmixer_12_224:64 resmlp_12_224:64
beit_base_patch16_224:64 xcit_nano_12_p16_224:64 swin_tiny_patch4_window7_224:224
swinv2_tiny_window8_256:256 convit_tiny:224 crossvit_tiny_240:240 coat_lite_tiny:224 levit_128s:224
levit_conv_128s:224 pit_ti_224:224 pvt_v2_b0:64 twins_svt_small:224 visformer_tiny:224
tnt_s_legacy_patch16_224:224 volo_d1_224:224 nest_tiny:224 efficientformer_l1:224
efficientformerv2_s0:224 efficientvit_m0:224 gcvit_xxtiny:224 hiera_tiny_224:224 mvitv2_tiny:224
davit_tiny:64 tiny_vit_5m_224:224 sequencer2d_s:224 inception_v4:128 inception_resnet_v2:128
inception_v3:128 maxvit_pico_rw_256:256 coatnet_pico_rw_224:224
bat_resnext26ts:256 eca_botnext26ts_256:256 halonet_h1:256
"""
_OWN_SIZE = {
    "vit_tiny_patch16_224", "vit_tiny_r_s16_p8_224", "vit_small_patch32_224",
    "vit_medium_patch16_gap_240", "deit_tiny_patch16_224", "deit_tiny_distilled_patch16_224",
    "eva02_tiny_patch14_224", "cait_xxs24_224", "mixer_s32_224", "gmlp_ti16_224", "gmixer_12_224",
    "resmlp_12_224", "beit_base_patch16_224", "xcit_nano_12_p16_224",
}  # fmt: skip
"""Those that are told the side of their images."""

_SHALLOW = {"beit_base_patch16_224": {"depth": 2, "embed_dim": 192, "num_heads": 3}}


def _options(name: str, side: int) -> dict[str, Any]:
    return ({"img_size": side} if name in _OWN_SIZE else {}) | _SHALLOW.get(name, {})


_SIDES = {name: 64 for name in _AT_64.split()} | {
    name: int(side) for name, _, side in (entry.partition(":") for entry in _FIXED.split())
}

TIMM: dict[str, tuple[int, dict[str, Any]]] = {
    name: (side, _options(name, side)) for name, side in _SIDES.items()
}
"""By name: the side of the images, and the options of `create_model`."""
